/* Reads the key out of a request head (auth.h). */
#include <openssl/sha.h>
#include <string.h>

#include "apid/auth.h"
#include "common/base64.h"

void
sha256(const void *p, size_t n, uint8_t digest[32])
{
	SHA256(p, n, digest);
}

/* A key has no blanks and no control bytes. */
static int
is_key(struct slice s)
{
	size_t i;

	if (s.n == 0 || s.n > KEY_MAX)
		return 0;
	for (i = 0; i < s.n; i++) {
		if ((unsigned char)s.p[i] <= 32 || s.p[i] == 127)
			return 0;
	}
	return 1;
}

/* "anything:KEY" in base64; buf holds the decoded text. */
static struct slice
basic_key(struct slice text, char buf[KEY_MAX * 2])
{
	struct slice none = {NULL, 0};
	size_t n;
	char *colon;

	if (text.n > KEY_MAX * 2 || base64_decode(text.p, text.n, 0, buf, &n) == -1)
		return none;
	if ((colon = memchr(buf, ':', n)) == NULL)
		return none;
	return (struct slice){colon + 1, n - (size_t)(colon + 1 - buf)};
}

/* buf: for a key that is not in the head as such. */
static int
find_key(const struct head *h, char buf[KEY_MAX * 2], uint8_t digest[32])
{
	struct slice header = h->field[FIELD_AUTHORIZATION], other = h->field[FIELD_API_KEY],
		     scheme;
	struct slice key = {NULL, 0};
	const char *p;

	if (header.p != NULL && header.n > 0) {
		if ((p = memchr(header.p, ' ', header.n)) == NULL)
			return 0;
		scheme = (struct slice){header.p, (size_t)(p - header.p)};
		while (p < header.p + header.n && *p == ' ')
			p++;
		key = (struct slice){p, header.n - (size_t)(p - header.p)};
		if (slice_is(scheme, "basic"))
			key = basic_key(key, buf);
		else if (!slice_is(scheme, "bearer"))
			return 0;
		if (!is_key(key))
			return 0;
	}
	if (other.p != NULL && other.n > 0) {
		if (!is_key(other))
			return 0;
		if (key.p != NULL && (key.n != other.n || memcmp(key.p, other.p, key.n) != 0))
			return 0;
		key = other;
	}
	if (key.p == NULL)
		return 0;
	sha256(key.p, key.n, digest);
	return 1;
}

int
auth_key(const struct head *h, uint8_t digest[32])
{
	char buf[KEY_MAX * 2];
	int found = find_key(h, buf, digest);

	explicit_bzero(buf, sizeof(buf));
	return found;
}
