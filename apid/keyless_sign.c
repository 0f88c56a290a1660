/* The signatures of the provider (keyless.h): the bytes go to keyd as they are. */
#include <openssl/core_names.h>
#include <openssl/params.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "apid/keyd.h"
#include "apid/keyless.h"
#include "common/log.h"

static const struct scheme {
	const char *type, *digest, *digest2;
	int bits; /* of an elliptic curve; 0: any */
	uint16_t code;
} schemes[] = {
    {"EC", "SHA256", "SHA2-256", 256, 0x0403},
    {"EC", "SHA384", "SHA2-384", 384, 0x0503},
    {"RSA", "SHA256", "SHA2-256", 0, 0x0804},
    {"RSA", "SHA384", "SHA2-384", 0, 0x0805},
    {"RSA", "SHA512", "SHA2-512", 0, 0x0806},
};

struct signing {
	const struct keyless_key *key; /* of the EVP_PKEY that the caller holds */
	uint16_t scheme;
	uint8_t is_rsa;
	uint8_t padded; /* PSS was asked for, with a salt as long as the digest */
	uint8_t salted;
};

static void *
signing_new(void *provider, const char *properties)
{
	(void)provider;
	(void)properties;
	return calloc(1, sizeof(struct signing));
}

static void
signing_free(void *data)
{
	free(data);
}

/* params of an RSA key: PSS, and the salt's length. Nothing else can be chosen. */
static int
signing_set(void *data, const OSSL_PARAM params[])
{
	struct signing *s = data;
	const OSSL_PARAM *p;
	const char *text;
	int number;

	if (params == NULL)
		return 1;
	if ((p = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PAD_MODE)) != NULL) {
		if (OSSL_PARAM_get_utf8_string_ptr(p, &text))
			s->padded = strcmp(text, OSSL_PKEY_RSA_PAD_MODE_PSS) == 0;
		else
			s->padded =
			    OSSL_PARAM_get_int(p, &number) && number == RSA_PKCS1_PSS_PADDING;
		if (!s->padded)
			return 0;
	}
	if ((p = OSSL_PARAM_locate_const(params, OSSL_SIGNATURE_PARAM_PSS_SALTLEN)) != NULL) {
		if (OSSL_PARAM_get_utf8_string_ptr(p, &text))
			s->salted = strcmp(text, OSSL_PKEY_RSA_PSS_SALT_LEN_DIGEST) == 0;
		else
			s->salted =
			    OSSL_PARAM_get_int(p, &number) && number == RSA_PSS_SALTLEN_DIGEST;
		if (!s->salted)
			return 0;
	}
	return 1;
}

static const OSSL_PARAM *
signing_settable(void *data, void *provider)
{
	static const OSSL_PARAM types[] = {
	    OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PAD_MODE, NULL, 0),
	    OSSL_PARAM_utf8_string(OSSL_SIGNATURE_PARAM_PSS_SALTLEN, NULL, 0),
	    OSSL_PARAM_END,
	};

	(void)data;
	(void)provider;
	return types;
}

static int
signing_start(void *data, const char *digest, void *key, const OSSL_PARAM params[])
{
	struct signing *s = data;
	size_t i;

	if (key != NULL)
		s->key = key;
	if (s->key == NULL || digest == NULL)
		return 0;
	s->scheme = 0;
	s->is_rsa = (uint8_t)EVP_PKEY_is_a(s->key->public, "RSA");
	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const struct scheme *c = &schemes[i];

		if (EVP_PKEY_is_a(s->key->public, c->type) &&
		    (c->bits == 0 || c->bits == EVP_PKEY_get_bits(s->key->public)) &&
		    (strcasecmp(digest, c->digest) == 0 || strcasecmp(digest, c->digest2) == 0))
			s->scheme = c->code;
	}
	return s->scheme != 0 && signing_set(s, params);
}

static int
signing_sign(void *data, unsigned char *signature, size_t *n, size_t size,
    const unsigned char *bytes, size_t nbytes)
{
	struct signing *s = data;
	int length;

	if (signature == NULL) {
		*n = (size_t)EVP_PKEY_get_size(s->key->public);
		return 1;
	}
	if (s->is_rsa && (!s->padded || !s->salted))
		return 0;
	length =
	    keyd_sign(s->key->generation, s->key->index, s->scheme, bytes, nbytes, signature, size);
	if (length == -1)
		return 0;
	*n = (size_t)length;
	return 1;
}

#define ENTRY(id, function)                  \
	{                                    \
		id, (void (*)(void))function \
	}

const OSSL_DISPATCH keyless_signature[] = {
    ENTRY(OSSL_FUNC_SIGNATURE_NEWCTX, signing_new),
    ENTRY(OSSL_FUNC_SIGNATURE_FREECTX, signing_free),
    ENTRY(OSSL_FUNC_SIGNATURE_DIGEST_SIGN_INIT, signing_start),
    ENTRY(OSSL_FUNC_SIGNATURE_DIGEST_SIGN, signing_sign),
    ENTRY(OSSL_FUNC_SIGNATURE_SET_CTX_PARAMS, signing_set),
    ENTRY(OSSL_FUNC_SIGNATURE_SETTABLE_CTX_PARAMS, signing_settable),
    {0, NULL},
};
