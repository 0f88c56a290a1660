/* Reads the ClientHello at the start of a connection as far as its server name; see tls.h. */
#include "egressd/tls.h"

#include <string.h>

#define RECORD_FIRST 20 /* change_cipher_spec */
#define RECORD_HANDSHAKE 22
#define RECORD_LAST 24 /* heartbeat */
#define RECORD_HEADER 5
#define RECORD_MAX 16384
#define CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define NAME_HOST 0

/* The handshake's bytes, taken out of their records as they are read. */
struct reader {
	const uint8_t *p, *end;
	size_t in_record; /* bytes of this record that are left */
	size_t left;      /* bytes of the message that are left */
	int more;         /* it ended too early */
	int bad;
};

int
tls_begins(const uint8_t *p, size_t n)
{
	if (n > 0 && p[0] >= RECORD_FIRST && p[0] <= RECORD_LAST)
		return 1;
	/* SSLv2's frame, which has no room for a server name, with the version of TLS in it. */
	return n >= 4 && (p[0] & 0x80) != 0 && p[2] == CLIENT_HELLO && p[3] == 3;
}

/* Enters the next record. Only handshake records may come; empty ones only serve to confuse. */
static int
next_record(struct reader *r)
{
	size_t len;

	if (r->p < r->end && r->p[0] != RECORD_HANDSHAKE)
		r->bad = 1;
	else if (r->end - r->p < RECORD_HEADER)
		r->more = 1;
	else {
		len = (size_t)r->p[3] << 8 | r->p[4];
		if (r->p[1] != 3 || len == 0 || len > RECORD_MAX)
			r->bad = 1;
		r->in_record = len;
		r->p += RECORD_HEADER;
	}
	return r->bad || r->more ? -1 : 0;
}

/* Copies n bytes of the message to out, or skips them (NULL). -1: they are not there. */
static int
take(struct reader *r, uint8_t *out, size_t n)
{
	size_t k;

	if (r->bad || r->more)
		return -1;
	if (n > r->left) {
		r->bad = 1;
		return -1;
	}
	r->left -= n;
	while (n > 0) {
		if (r->in_record == 0 && next_record(r) == -1)
			return -1;
		k = n < r->in_record ? n : r->in_record;
		if (k > (size_t)(r->end - r->p)) {
			r->more = 1;
			return -1;
		}
		if (out != NULL) {
			memcpy(out, r->p, k);
			out += k;
		}
		r->p += k;
		r->in_record -= k;
		n -= k;
	}
	return 0;
}

/* A number of n bytes; 0 when it is not there, which r then says. */
static size_t
number(struct reader *r, size_t n)
{
	uint8_t b[3] = {0};
	size_t value = 0, i;

	if (take(r, b, n) == -1)
		return 0;
	for (i = 0; i < n; i++)
		value = value << 8 | b[i];
	return value;
}

static void
skip_vector(struct reader *r, size_t size_of_length)
{
	take(r, NULL, number(r, size_of_length));
}

/* The extension's data: exactly one name, and it is a host's. */
static void
server_name(struct reader *r, size_t len, struct tls_name *out)
{
	size_t list = number(r, 2), kind = number(r, 1), n = number(r, 2);

	if (r->bad || r->more)
		return;
	if (len < 5 || list != len - 2 || kind != NAME_HOST || n != len - 5 || n == 0 ||
	    n > sizeof(out->name)) {
		r->bad = 1;
		return;
	}
	if (take(r, out->name, n) == 0)
		out->len = n;
}

static void
extensions(struct reader *r, struct tls_name *out)
{
	size_t type, len, all;
	int seen = 0;

	if (r->left == 0)
		return; /* none at all, as before TLS 1.2 */
	all = number(r, 2);
	if (!r->more && all != r->left)
		r->bad = 1;
	while (r->left > 0 && !r->bad && !r->more) {
		type = number(r, 2);
		len = number(r, 2);
		if (r->bad || r->more || len > r->left) {
			r->bad |= !r->more;
			return;
		}
		if (type != EXTENSION_SERVER_NAME)
			take(r, NULL, len);
		else if (seen++)
			r->bad = 1;
		else
			server_name(r, len, out);
	}
}

enum tls_result
tls_hello(const uint8_t *p, size_t n, struct tls_name *out)
{
	struct reader r = {.p = p, .end = p + n, .left = 4};
	size_t type;

	out->len = 0;
	type = number(&r, 1);
	if (!r.more && type != CLIENT_HELLO)
		r.bad = 1;
	r.left = 3;
	r.left = number(&r, 3);
	take(&r, NULL, 2 + 32); /* version, random */
	skip_vector(&r, 1);     /* session */
	skip_vector(&r, 2);     /* ciphers */
	skip_vector(&r, 1);     /* compression */
	extensions(&r, out);
	if (r.bad)
		return TLS_BAD;
	if (r.more)
		return TLS_MORE;
	return out->len > 0 ? TLS_NAME : TLS_NONE;
}
