/* The keys: read from files that the parent has opened, used to sign, forgotten (keyd.h). */
#include <openssl/conf.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "common/log.h"
#include "keyd/keyd.h"

#define FILE_MAX 32768
#define GENERATIONS 3 /* one that goes, the one in use, one that is being tried */

static struct generation {
	uint32_t number; /* 0: none */
	uint32_t count;
	EVP_PKEY *keys[KEYS_AT_ONCE];
} generations[GENERATIONS];

static const struct scheme {
	uint16_t id;
	const char *digest;
	const char *curve; /* NULL: RSA-PSS; TLS 1.2 leaves it open */
	int bits;          /* of the curve */
} schemes[] = {
    {SCHEME_ECDSA_P256_SHA256, "SHA256", "prime256v1", 256},
    {SCHEME_ECDSA_P384_SHA384, "SHA384", "secp384r1", 384},
    {SCHEME_RSA_PSS_SHA256, "SHA256", NULL, 0},
    {SCHEME_RSA_PSS_SHA384, "SHA384", NULL, 0},
    {SCHEME_RSA_PSS_SHA512, "SHA512", NULL, 0},
};

static struct generation *
find(uint32_t number)
{
	for (size_t i = 0; i < GENERATIONS; i++)
		if (number != 0 && generations[i].number == number)
			return &generations[i];
	return NULL;
}

/* A free place, if there is one. */
static struct generation *
oldest(void)
{
	struct generation *g = &generations[0];

	for (size_t i = 1; i < GENERATIONS; i++)
		if (generations[i].number < g->number)
			g = &generations[i];
	return g;
}

static void
forget(struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++)
		EVP_PKEY_free(g->keys[i]); /* the library wipes it */
	memset(g, 0, sizeof(*g));
}

void
keys_forget(uint32_t number)
{
	struct generation *g = find(number);

	if (g != NULL)
		forget(g);
}

void
keys_forget_before(uint32_t number)
{
	if (find(number) == NULL)
		return; /* then the old ones are all there is */
	for (size_t i = 0; i < GENERATIONS; i++)
		if (generations[i].number != 0 && generations[i].number < number)
			forget(&generations[i]);
}

/* A key with a passphrase cannot be used by a program that nobody types to. */
static int
no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing;
	*(int *)arg = 1;
	return -1;
}

/* NULL when it is of a kind that a handshake can use here. */
static const char *
check(EVP_PKEY *key)
{
	char curve[64];
	size_t n;

	if (EVP_PKEY_is_a(key, "RSA"))
		return EVP_PKEY_get_bits(key) < 2048 || EVP_PKEY_get_bits(key) > 4096
			   ? "an RSA key must have 2048 to 4096 bits"
			   : NULL;
	if (EVP_PKEY_is_a(key, "EC") &&
	    EVP_PKEY_get_group_name(key, curve, sizeof(curve), &n) == 1 &&
	    (strcmp(curve, "prime256v1") == 0 || strcmp(curve, "secp384r1") == 0))
		return NULL;
	return "the key must be an ECDSA key of P-256 or P-384, or an RSA key";
}

static const char *
parse(const char *pem, size_t n, EVP_PKEY **key)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)n);
	int locked = 0;

	if (bio == NULL)
		fatalx("out of memory");
	*key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &locked);
	BIO_free(bio);
	ERR_clear_error();
	if (*key == NULL)
		return locked ? "the key has a passphrase, which nobody could type here"
			      : "there is no private key in PEM in it";
	return check(*key);
}

/* The text of the file stays in memory that is locked and wiped. */
static const char *
load(int fd, EVP_PKEY **key)
{
	struct stat st;
	const char *why;
	char *pem;
	ssize_t n;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return "it is not a regular file";
	if (st.st_size > FILE_MAX)
		return "it is too large for a key";
	if ((pem = OPENSSL_secure_malloc(FILE_MAX)) == NULL)
		fatalx("out of memory");
	if ((n = pread(fd, pem, FILE_MAX, 0)) == -1)
		why = "it cannot be read";
	else
		why = parse(pem, (size_t)n, key);
	OPENSSL_secure_clear_free(pem, FILE_MAX);
	return why;
}

const char *
keys_read(uint32_t number, uint32_t index, int fd)
{
	struct generation *g = find(number);
	EVP_PKEY *key = NULL;
	const char *why;

	if (g == NULL) {
		g = oldest(); /* one that failed was forgotten at once */
		if (number <= g->number)
			fatalx("parent: keys of an older generation");
		forget(g);
		g->number = number;
	}
	if (index != g->count || index >= KEYS_AT_ONCE)
		fatalx("parent: a key out of order");
	why = load(fd, &key);
	if (why != NULL) {
		EVP_PKEY_free(key);
		key = NULL;
	}
	g->keys[g->count++] = key;
	return why;
}

static EVP_PKEY *
key_of(uint32_t number, uint32_t index)
{
	struct generation *g = find(number);

	return g != NULL && index < g->count ? g->keys[index] : NULL;
}

uint32_t
keys_public(uint32_t number, uint32_t index, uint8_t *out, size_t *n)
{
	EVP_PKEY *key = key_of(number, index);
	int len;

	if (key == NULL)
		return KEY_UNKNOWN;
	if ((len = i2d_PUBKEY(key, NULL)) <= 0 || len > KEY_OUTPUT_MAX)
		return KEY_FAILED;
	*n = (size_t)i2d_PUBKEY(key, &out);
	return KEY_OK;
}

static const struct scheme *
scheme_of(uint16_t id, EVP_PKEY *key, enum input input)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const struct scheme *s = &schemes[i];

		if (s->id == id)
			return EVP_PKEY_is_a(key, s->curve != NULL ? "EC" : "RSA") &&
				       (s->curve == NULL || input == INPUT_TLS12 ||
					   EVP_PKEY_get_bits(key) == s->bits)
				   ? s
				   : NULL;
	}
	return NULL;
}

/* It hashes and pads here: nobody gets a signature of a hash of their own. */
static int
sign(const struct scheme *s, EVP_PKEY *key, const uint8_t *p, size_t n, uint8_t *out, size_t *len)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	EVP_PKEY_CTX *how;
	int ok;

	*len = KEY_OUTPUT_MAX;
	ok = ctx != NULL &&
	     EVP_DigestSignInit_ex(ctx, &how, s->digest, NULL, NULL, key, NULL) == 1 &&
	     (s->curve != NULL ||
		 (EVP_PKEY_CTX_set_rsa_padding(how, RSA_PKCS1_PSS_PADDING) == 1 &&
		     EVP_PKEY_CTX_set_rsa_pss_saltlen(how, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
	     EVP_DigestSign(ctx, out, len, p, n) == 1;
	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return ok ? 0 : -1;
}

uint32_t
keys_sign(const struct m_k_sign *ask, const uint8_t *p, size_t n, uint8_t *out, size_t *len)
{
	EVP_PKEY *key = key_of(ask->generation, ask->index);
	enum input input = input_kind(p, n);
	const struct scheme *s;

	if (key == NULL)
		return KEY_UNKNOWN;
	if (input == INPUT_NONE || (s = scheme_of(ask->scheme, key, input)) == NULL)
		return KEY_REFUSED;
	return sign(s, key, p, n, out, len) == 0 ? KEY_OK : KEY_FAILED;
}

/* A key that nobody keeps is made, written, read, and signs: whatever is loaded for that is there.
 */
void
keys_init(void)
{
	static const uint8_t text[1];
	EVP_PKEY *made, *read = NULL;
	uint8_t out[KEY_OUTPUT_MAX];
	BIO *bio;
	char *pem;
	size_t len;
	long n;

	memory_init();
	if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		fatalx("libcrypto cannot be used");
	if ((made = EVP_EC_gen(schemes[0].curve)) == NULL ||
	    (bio = BIO_new(BIO_s_secmem())) == NULL ||
	    PEM_write_bio_PrivateKey(bio, made, NULL, NULL, 0, NULL, NULL) != 1)
		fatalx("libcrypto cannot make a key");
	n = BIO_get_mem_data(bio, &pem);
	if (parse(pem, (size_t)n, &read) != NULL ||
	    sign(&schemes[0], read, text, sizeof(text), out, &len) == -1)
		fatalx("libcrypto cannot use a key");
	EVP_PKEY_free(read);
	EVP_PKEY_free(made);
	BIO_free(bio);
}
