/* Below the TLS of a trusted proxy's connection: takes the PROXY header off before the first
 * record (gate_tls.h). Nothing behind the header is read ahead. */
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "apid/gate_listen.h"
#include "apid/gate_tls.h"
#include "apid/proxy_header.h"
#include "common/log.h"

#define FIXED 16 /* bytes of a header up to the end of its length field */

struct header {
	struct conn *c;
	size_t n, at; /* bytes that have come, and those of them that are spent */
	int over;
	uint8_t bytes[PROXY_HEADER_MAX];
};

/* How much of the header is still to come, as far as one can tell. */
static size_t
missing(const struct header *h)
{
	size_t all = FIXED;

	if (h->n >= FIXED)
		all += (size_t)(h->bytes[14] << 8 | h->bytes[15]);
	if (all > sizeof(h->bytes))
		all = sizeof(h->bytes);
	return all > h->n ? all - h->n : 0;
}

static int
header_refuse(struct header *h)
{
	gate_log_handshake(h->c->peer.text, "malformed PROXY header");
	return -1;
}

/* 1: it is over, what is left of bytes belongs to TLS; else what BIO_read(3) returned, or -1. */
static int
header_read(BIO *b, struct header *h)
{
	struct peer_addr p = h->c->peer;
	size_t want, used;
	int r;

	while (!h->over) {
		if ((want = missing(h)) == 0)
			return header_refuse(h);
		if ((r = BIO_read(BIO_next(b), h->bytes + h->n, (int)want)) <= 0) {
			BIO_copy_next_retry(b);
			return r;
		}
		h->n += (size_t)r;
		if ((r = proxy_header_parse(h->bytes, h->n, &p, &used)) == -1)
			return header_refuse(h);
		if (r == 0)
			continue;
		h->over = 1;
		h->at = used;
		h->c->proxied = 0;
		if (used > 0 && gate_set_peer(h->c, &p) == -1)
			return -1;
	}
	return 1;
}

static int
filter_read(BIO *b, char *out, int size)
{
	struct header *h = BIO_get_data(b);
	int r;

	BIO_clear_retry_flags(b);
	if (h != NULL && (r = header_read(b, h)) != 1)
		return r;
	if (h != NULL && h->at < h->n) {
		size_t n = h->n - h->at;

		if (n > (size_t)size)
			n = (size_t)size;
		memcpy(out, h->bytes + h->at, n);
		h->at += n;
		return (int)n;
	}
	free(h);
	BIO_set_data(b, NULL);
	r = BIO_read(BIO_next(b), out, size);
	BIO_copy_next_retry(b);
	return r;
}

static long
filter_ctrl(BIO *b, int what, long number, void *arg)
{
	return BIO_ctrl(BIO_next(b), what, number, arg);
}

static int
filter_destroy(BIO *b)
{
	free(BIO_get_data(b));
	BIO_set_data(b, NULL);
	return 1;
}

void
gate_tls_proxied(struct conn *c)
{
	static BIO_METHOD *method;
	struct header *h = calloc(1, sizeof(*h));
	BIO *socket_bio = SSL_get_rbio(c->ssl), *filter;

	if (method == NULL) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_FILTER, "PROXY header");
		if (method == NULL || !BIO_meth_set_read(method, filter_read) ||
		    !BIO_meth_set_ctrl(method, filter_ctrl) ||
		    !BIO_meth_set_destroy(method, filter_destroy))
			fatalx("BIO_meth_new");
	}
	if (h == NULL || (filter = BIO_new(method)) == NULL || !BIO_up_ref(socket_bio))
		fatalx("BIO_new");
	h->c = c;
	BIO_set_data(filter, h);
	BIO_set_init(filter, 1);
	SSL_set0_rbio(c->ssl, BIO_push(filter, socket_bio));
}
