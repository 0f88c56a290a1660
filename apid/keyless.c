/* The keys of the provider (keyless.h): what OpenSSL asks of a key is answered by its public part,
 * which OpenSSL's own provider holds. */
#include "apid/keyless.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>

#include "common/log.h"

#define PROVIDER "keyd"
#define OWN "provider=default"
#define PARAM_DER "keyd-public"
#define PARAM_GENERATION "keyd-generation"
#define PARAM_INDEX "keyd-index"

static void *
key_new(void *provider)
{
	(void)provider;
	return calloc(1, sizeof(struct keyless_key));
}

static void
key_free(void *data)
{
	struct keyless_key *key = data;

	if (key == NULL)
		return;
	EVP_PKEY_free(key->public);
	free(key);
}

/* keyd was asked before the key was made. */
static int
key_has(const void *data, int selection)
{
	(void)selection;
	return data != NULL && ((const struct keyless_key *)data)->public != NULL;
}

static int
key_import(void *data, int selection, const OSSL_PARAM params[])
{
	const OSSL_PARAM *der = OSSL_PARAM_locate_const(params, PARAM_DER);
	const OSSL_PARAM *generation = OSSL_PARAM_locate_const(params, PARAM_GENERATION);
	const OSSL_PARAM *index = OSSL_PARAM_locate_const(params, PARAM_INDEX);
	struct keyless_key *key = data;
	const unsigned char *p;
	const void *bytes;
	size_t n;

	(void)selection;
	if (der == NULL || generation == NULL || index == NULL || key->public != NULL ||
	    !OSSL_PARAM_get_octet_string_ptr(der, &bytes, &n) ||
	    !OSSL_PARAM_get_uint32(generation, &key->generation) ||
	    !OSSL_PARAM_get_uint32(index, &key->index))
		return 0;
	p = bytes;
	key->public = d2i_PUBKEY_ex(NULL, &p, (long)n, NULL, OWN);
	return key->public != NULL && p == (const unsigned char *)bytes + n;
}

static const OSSL_PARAM *
key_import_types(int selection)
{
	static const OSSL_PARAM types[] = {
	    OSSL_PARAM_octet_string(PARAM_DER, NULL, 0),
	    OSSL_PARAM_uint32(PARAM_GENERATION, NULL),
	    OSSL_PARAM_uint32(PARAM_INDEX, NULL),
	    OSSL_PARAM_END,
	};

	(void)selection;
	return types;
}

/* For comparing it with the certificate's: only the public part can leave, there is no other. */
static int
key_export(void *data, int selection, OSSL_CALLBACK *callback, void *arg)
{
	const struct keyless_key *key = data;

	(void)selection;
	return EVP_PKEY_export(key->public, EVP_PKEY_PUBLIC_KEY, callback, arg);
}

static const OSSL_PARAM *
key_export_types(int selection)
{
	static const OSSL_PARAM types[] = {
	    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
	    OSSL_PARAM_octet_string(OSSL_PKEY_PARAM_PUB_KEY, NULL, 0),
	    OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_N, NULL, 0),
	    OSSL_PARAM_BN(OSSL_PKEY_PARAM_RSA_E, NULL, 0),
	    OSSL_PARAM_END,
	};

	(void)selection;
	return types;
}

static int
key_get_params(void *data, OSSL_PARAM params[])
{
	return EVP_PKEY_get_params(((struct keyless_key *)data)->public, params);
}

static const OSSL_PARAM *
key_gettable_params(void *provider)
{
	static const OSSL_PARAM types[] = {
	    OSSL_PARAM_int(OSSL_PKEY_PARAM_BITS, NULL),
	    OSSL_PARAM_int(OSSL_PKEY_PARAM_SECURITY_BITS, NULL),
	    OSSL_PARAM_int(OSSL_PKEY_PARAM_MAX_SIZE, NULL),
	    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_DEFAULT_DIGEST, NULL, 0),
	    OSSL_PARAM_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, NULL, 0),
	    OSSL_PARAM_END,
	};

	(void)provider;
	return types;
}

static const char *
key_operation(int operation)
{
	return operation == OSSL_OP_SIGNATURE ? PROVIDER : NULL;
}

/* OpenSSL's tables hold functions of every type as one. */
#define ENTRY(id, function)                  \
	{                                    \
		id, (void (*)(void))function \
	}

static const OSSL_DISPATCH keys[] = {
    ENTRY(OSSL_FUNC_KEYMGMT_NEW, key_new),
    ENTRY(OSSL_FUNC_KEYMGMT_FREE, key_free),
    ENTRY(OSSL_FUNC_KEYMGMT_HAS, key_has),
    ENTRY(OSSL_FUNC_KEYMGMT_IMPORT, key_import),
    ENTRY(OSSL_FUNC_KEYMGMT_IMPORT_TYPES, key_import_types),
    ENTRY(OSSL_FUNC_KEYMGMT_EXPORT, key_export),
    ENTRY(OSSL_FUNC_KEYMGMT_EXPORT_TYPES, key_export_types),
    ENTRY(OSSL_FUNC_KEYMGMT_GET_PARAMS, key_get_params),
    ENTRY(OSSL_FUNC_KEYMGMT_GETTABLE_PARAMS, key_gettable_params),
    ENTRY(OSSL_FUNC_KEYMGMT_QUERY_OPERATION_NAME, key_operation),
    {0, NULL},
};

static const OSSL_ALGORITHM *
provider_query(void *provider, int operation, int *no_store)
{
	/* The names of OpenSSL's own key types: libssl knows by them what a key can do. */
	static const OSSL_ALGORITHM key_types[] = {
	    {"EC:id-ecPublicKey:1.2.840.10045.2.1", "provider=" PROVIDER, keys, NULL},
	    {"RSA:rsaEncryption:1.2.840.113549.1.1.1", "provider=" PROVIDER, keys, NULL},
	    {NULL, NULL, NULL, NULL},
	};
	static const OSSL_ALGORITHM signatures[] = {
	    {PROVIDER, "provider=" PROVIDER, keyless_signature, NULL},
	    {NULL, NULL, NULL, NULL},
	};

	(void)provider;
	*no_store = 0;
	if (operation == OSSL_OP_KEYMGMT)
		return key_types;
	return operation == OSSL_OP_SIGNATURE ? signatures : NULL;
}

static int
provider_start(const OSSL_CORE_HANDLE *handle, const OSSL_DISPATCH *in, const OSSL_DISPATCH **out,
    void **provider)
{
	static const OSSL_DISPATCH functions[] = {
	    ENTRY(OSSL_FUNC_PROVIDER_QUERY_OPERATION, provider_query),
	    {0, NULL},
	};
	static int state;

	(void)handle;
	(void)in;
	*out = functions;
	*provider = &state;
	return 1;
}

void
keyless_init(void)
{
	unsigned char byte;

	/* A preference, so that what is not ours by name stays with OpenSSL's own provider. */
	if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, NULL) ||
	    OSSL_PROVIDER_load(NULL, "default") == NULL ||
	    !OSSL_PROVIDER_add_builtin(NULL, PROVIDER, provider_start) ||
	    OSSL_PROVIDER_load(NULL, PROVIDER) == NULL ||
	    !EVP_set_default_properties(NULL, "?" OWN) || RAND_bytes(&byte, 1) != 1)
		fatalx("OpenSSL: %s", ERR_reason_error_string(ERR_peek_last_error()));
}

EVP_PKEY *
keyless_new(uint32_t generation, uint32_t index, const uint8_t *der, size_t n)
{
	const unsigned char *p = der;
	EVP_PKEY *public = d2i_PUBKEY_ex(NULL, &p, (long)n, NULL, OWN), *key = NULL;
	OSSL_PARAM params[] = {
	    OSSL_PARAM_octet_string(PARAM_DER, (void *)(uintptr_t)der, n),
	    OSSL_PARAM_uint32(PARAM_GENERATION, &generation),
	    OSSL_PARAM_uint32(PARAM_INDEX, &index),
	    OSSL_PARAM_END,
	};
	EVP_PKEY_CTX *ctx = NULL;

	if (public != NULL)
		ctx = EVP_PKEY_CTX_new_from_name(
		    NULL, EVP_PKEY_is_a(public, "EC") ? "EC" : "RSA", "provider=" PROVIDER);
	if (ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
	    EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) != 1)
		key = NULL;
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(public);
	return key;
}

const char *
keyless_algorithms(const EVP_PKEY *key)
{
	char group[32];

	if (EVP_PKEY_is_a(key, "RSA"))
		return "RSA-PSS+SHA256:RSA-PSS+SHA384:RSA-PSS+SHA512";
	if (!EVP_PKEY_is_a(key, "EC") || !EVP_PKEY_get_group_name(key, group, sizeof(group), NULL))
		return NULL;
	if (OBJ_txt2nid(group) == NID_X9_62_prime256v1)
		return "ECDSA+SHA256";
	return OBJ_txt2nid(group) == NID_secp384r1 ? "ECDSA+SHA384" : NULL;
}
