/* Generations of certificates, and which of them a connection gets (tls.h). */
#include "apid/tls.h"

#include <errno.h>
#include <event2/event.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/string.h>

#include "apid/keyd.h"
#include "apid/keyless.h"
#include "common/log.h"

#define DER_MAX 2048

/* What the parent has sent of the next generation. */
struct file {
	char *text;
	size_t n;
	char why[128]; /* not read: for this */
};

static struct {
	uint32_t generation;
	struct file certificates[TLS_CERTS_MAX];
	struct file client_ca;
	int has_client_ca;
} next;

/* What is in use. */
struct tls_set {
	uint32_t generation, count;
	SSL_CTX *ctx[TLS_CERTS_MAX];
	int has_client_ca;
};

static struct tls_set current;
static struct event *settled;

static void
on_settled(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	keyd_use(current.generation);
}

void
tls_init(struct event_base *base)
{
	keyless_init();
	if ((settled = evtimer_new(base, on_settled, NULL)) == NULL)
		fatalx("evtimer_new");
}

static void
file_drop(struct file *f)
{
	free(f->text);
	memset(f, 0, sizeof(*f));
}

static void
next_drop(uint32_t generation)
{
	size_t i;

	for (i = 0; i < TLS_CERTS_MAX; i++)
		file_drop(&next.certificates[i]);
	file_drop(&next.client_ca);
	next.has_client_ca = 0;
	next.generation = generation;
}

/* A private key beside the certificate would be in this program's memory, which must not be. */
static int
holds_key(const struct file *f)
{
	static const char mark[] = "PRIVATE KEY-----";

	return memmem(f->text, f->n, mark, sizeof(mark) - 1) != NULL;
}

static void
file_read(struct file *f, int fd)
{
	struct stat st;
	ssize_t n;

	file_drop(f);
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode)) {
		snprintf(f->why, sizeof(f->why), "it is no file");
	} else if ((f->text = malloc(TLS_FILE_MAX + 1)) == NULL) {
		fatal("malloc");
	} else if ((n = pread(fd, f->text, TLS_FILE_MAX + 1, 0)) == -1) {
		snprintf(f->why, sizeof(f->why), "it cannot be read (%s)", strerror(errno));
	} else if ((f->n = (size_t)n) > TLS_FILE_MAX) {
		snprintf(f->why, sizeof(f->why), "it is larger than %d bytes", TLS_FILE_MAX);
	} else if (holds_key(f)) {
		explicit_bzero(f->text, f->n);
		snprintf(f->why, sizeof(f->why),
		    "a private key is in it; the file of certificates must have none");
	}
	close(fd);
}

void
tls_take_certificate(uint32_t generation, uint32_t index, int fd)
{
	if (index >= TLS_CERTS_MAX)
		fatalx("parent: certificate %u", index);
	if (generation != next.generation)
		next_drop(generation);
	file_read(&next.certificates[index], fd);
}

void
tls_take_client_ca(uint32_t generation, int fd)
{
	if (generation != next.generation)
		next_drop(generation);
	next.has_client_ca = 1;
	file_read(&next.client_ca, fd);
}

static void
input_drop(struct tls_input *in)
{
	X509_STORE_free(in->client_ca);
	sk_X509_NAME_pop_free(in->client_ca_names, X509_NAME_free);
}

static int
load_client_ca(struct tls_input *in, char *why, size_t size)
{
	STACK_OF(X509) *list = sk_X509_new_null();
	int i;

	in->client_ca = X509_STORE_new();
	in->client_ca_names = sk_X509_NAME_new_null();
	if (list == NULL || in->client_ca == NULL || in->client_ca_names == NULL)
		fatalx("X509_STORE_new");
	if (next.client_ca.why[0] != '\0')
		snprintf(why, size, "%s", next.client_ca.why);
	else
		tls_read_certificates(next.client_ca.text, next.client_ca.n, list, why, size);
	for (i = 0; why[0] == '\0' && i < sk_X509_num(list); i++) {
		X509 *x = sk_X509_value(list, i);
		X509_NAME *name = X509_NAME_dup(X509_get_subject_name(x));

		if (name == NULL || !sk_X509_NAME_push(in->client_ca_names, name))
			fatalx("X509_NAME_dup");
		if (X509_STORE_add_cert(in->client_ca, x) != 1)
			snprintf(why, size, "certificate %d of it cannot be used (%s)", i + 1,
			    tls_error());
	}
	sk_X509_pop_free(list, X509_free);
	return why[0] != '\0' ? -1 : 0;
}

/* The key is what keyd says it is; the certificate must be that key's. */
static SSL_CTX *
load_certificate(struct tls_input *in, uint32_t index, char *why, size_t size)
{
	const struct file *f = &next.certificates[index];
	uint8_t der[DER_MAX];
	SSL_CTX *ctx = NULL;
	int n;

	in->key = NULL;
	in->chain = f->text;
	in->n = f->n;
	if (f->why[0] != '\0')
		snprintf(why, size, "%s", f->why);
	else if (f->text == NULL)
		fatalx("parent: certificate %u is missing", index);
	else if ((n = keyd_public(next.generation, index, der, sizeof(der))) == -1 ||
		 (in->key = keyless_new(next.generation, index, der, (size_t)n)) == NULL)
		snprintf(why, size, "keyd has no key for it");
	else
		ctx = tls_ctx_new(in, why, size);
	EVP_PKEY_free(in->key);
	return ctx;
}

static void
set_drop(struct tls_set *set)
{
	uint32_t i;

	for (i = 0; i < set->count; i++)
		SSL_CTX_free(set->ctx[i]);
	memset(set, 0, sizeof(*set));
}

/* Connections keep the context that they have. A handshake under way may still need an older key:
 * keyd forgets it when none of them can be left. */
static void
switch_to(const struct tls_set *set)
{
	static const struct timeval wait = {TLS_HANDSHAKE_SECONDS + 2, 0};
	int was_on = current.count > 0;

	if (event_pending(settled, EV_TIMEOUT, NULL))
		keyd_use(current.generation);
	if (current.has_client_ca || set->has_client_ca)
		tls_ticket_forget();
	set_drop(&current);
	current = *set;
	if (was_on && event_add(settled, &wait) == -1)
		fatalx("event_add");
}

int
tls_use(uint32_t generation, uint32_t count, uint8_t *index, char *why, size_t size)
{
	struct tls_set set = {.generation = generation, .has_client_ca = next.has_client_ca};
	struct tls_input in = {0};
	int result = 0;

	if (generation != next.generation || count == 0 || count > TLS_CERTS_MAX)
		fatalx("parent: %u certificates of generation %u", count, generation);
	why[0] = '\0';
	*index = TLS_NO_INDEX;
	if (next.has_client_ca)
		result = load_client_ca(&in, why, size);
	while (result == 0 && set.count < count) {
		if ((set.ctx[set.count] = load_certificate(&in, set.count, why, size)) == NULL)
			result = -1;
		*index = (uint8_t)set.count;
		set.count += result == 0;
	}
	input_drop(&in);
	next_drop(generation);
	if (result == 0)
		switch_to(&set);
	else
		set_drop(&set);
	return result;
}

int
tls_is_on(void)
{
	return current.count > 0;
}

SSL *
tls_new(void)
{
	SSL *ssl = SSL_new(current.ctx[0]);

	if (ssl == NULL)
		fatalx("SSL_new");
	return ssl;
}

static int
names(SSL_CTX *ctx, const char *name, unsigned flags)
{
	return X509_check_host(SSL_CTX_get0_certificate(ctx), name, strlen(name),
		   X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
		       flags,
		   NULL) == 1;
}

SSL_CTX *
tls_choose(const char *name, int *found)
{
	uint32_t i;

	if (name != NULL && name[0] == '.') /* X509_check_host(3) would take it for a suffix */
		name = NULL;
	*found = 1;
	for (i = 0; name != NULL && i < current.count; i++) {
		if (names(current.ctx[i], name, X509_CHECK_FLAG_NO_WILDCARDS))
			return current.ctx[i];
	}
	for (i = 0; name != NULL && i < current.count; i++) {
		if (names(current.ctx[i], name, 0))
			return current.ctx[i];
	}
	*found = 0;
	return current.ctx[0];
}
