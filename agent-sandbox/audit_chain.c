/* Judges lines of the audit log one after the other (audit_chain.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/audit_chain.h"
#include "common/log.h"

const char *const chain_fault_names[] = {"ok", "changed", "removed", "added", "out of order",
    "torn", "cut", "re-chained", "signature", "key"};

void
chain_init(struct chain *c)
{
	memset(c, 0, sizeof(*c));
	memset(c->head, '0', sizeof(c->head) - 1);
	c->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	c->ctx = EVP_MD_CTX_new();
	c->recent = calloc(CHAIN_RECENT, sizeof(*c->recent));
	if (c->md == NULL || c->ctx == NULL || c->recent == NULL)
		fatalx("no memory");
}

void
chain_free(struct chain *c)
{
	EVP_MD_free(c->md);
	EVP_MD_CTX_free(c->ctx);
	free(c->recent);
}

enum chain_fault
chain_fault(struct chain *c, enum chain_fault fault, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(c->why, sizeof(c->why), fmt, ap);
	va_end(ap);
	return fault;
}

static void
hash(struct chain *c, const char *line, size_t len, char out[AUDIT_HASH_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t digest[32];

	if (EVP_DigestInit_ex(c->ctx, c->md, NULL) != 1 ||
	    EVP_DigestUpdate(c->ctx, line, len) != 1 ||
	    EVP_DigestFinal_ex(c->ctx, digest, NULL) != 1)
		fatalx("libcrypto cannot hash");
	for (size_t i = 0; i < sizeof(digest); i++) {
		out[2 * i] = digits[digest[i] >> 4];
		out[2 * i + 1] = digits[digest[i] & 15];
	}
	out[AUDIT_HASH_TEXT - 1] = '\0';
}

static enum chain_fault
wrong_number(struct chain *c, uint64_t seq)
{
	if (seq == 0)
		return chain_fault(c, CHAIN_ADDED,
		    "a line without a number stands behind line %" PRIu64 " of the log", c->seq);
	if (seq <= c->seq)
		return chain_fault(c, CHAIN_ADDED,
		    "number %" PRIu64 " comes again behind %" PRIu64
		    ": a line was added again, or moved back",
		    seq, c->seq);
	return chain_fault(c, CHAIN_REMOVED,
	    "number %" PRIu64 " stands behind %" PRIu64 ": %" PRIu64 " lines between are missing",
	    seq, c->seq, seq - c->seq - 1);
}

static int
fits(const struct chain *c, const struct audit_end *end)
{
	return memcmp(end->prev, c->head, AUDIT_HASH_TEXT) == 0;
}

/* Where reading begins is taken as it is. */
static void
begin(struct chain *c, const struct audit_end *end)
{
	static const char zeros[] =
	    "0000000000000000000000000000000000000000000000000000000000000000";

	c->any = 1;
	if (end->seq > 1 || (end->seq == 0 && strcmp(end->prev, zeros) != 0)) {
		c->behind = end->seq > 0 ? end->seq - 1 : 1;
		memcpy(c->behind_head, end->prev, AUDIT_HASH_TEXT);
	}
	c->seq = end->seq > 0 ? end->seq - 1 : 0;
	memcpy(c->head, end->prev, AUDIT_HASH_TEXT);
}

static void
take(struct chain *c, const char *line, size_t len, uint64_t seq)
{
	c->lines++;
	c->seq = seq;
	hash(c, line, len, c->head);
	if (seq == 0)
		return;
	if (c->first == 0)
		c->first = seq;
	memcpy(c->recent[seq % CHAIN_RECENT], c->head, AUDIT_HASH_TEXT);
	if (seq == c->kept)
		memcpy(c->kept_head, c->head, AUDIT_HASH_TEXT);
}

enum chain_fault
chain_line(struct chain *c, const char *line, size_t len, int *back)
{
	struct audit_end end;

	*back = 0;
	if (audit_line_end(line, len, &end) == -1)
		return chain_fault(c, CHAIN_CHANGED, "this is no line of an audit log");
	if (!c->any)
		begin(c, &end);
	if (end.seq != c->seq + 1 && (end.seq != 0 || c->seq != 0))
		return wrong_number(c, end.seq);
	if (!fits(c, &end)) {
		*back = 1;
		return chain_fault(c, CHAIN_CHANGED,
		    "the line was changed: its hash is not the one that the next line has");
	}
	take(c, line, len, end.seq);
	if (len > 10 && line[2] == 'a' && memcmp(line, "{\"action\":\"", 11) == 0 &&
	    (line[11] == 'c' || line[11] == 'r'))
		return chain_special(c, line, len);
	return CHAIN_OK;
}

int
chain_follows(struct chain *c, const char *line, size_t len, const char *next, size_t next_len)
{
	char own[AUDIT_HASH_TEXT];
	struct audit_end end;

	hash(c, line, len, own);
	return audit_line_end(next, next_len, &end) == 0 &&
	       memcmp(end.prev, own, AUDIT_HASH_TEXT) == 0;
}
