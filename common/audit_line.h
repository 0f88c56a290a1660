/*
 * What a line of the audit log ends with, and what keyd signs of one. Pure; managerd writes lines,
 * agent-sandbox reads them, keyd and both make the text of a checkpoint. docs/AUDIT-LOG.md has the
 * format.
 */
#ifndef COMMON_AUDIT_LINE_H
#define COMMON_AUDIT_LINE_H

#include <stddef.h>
#include <stdint.h>

#define AUDIT_FILE "audit.log"
#define AUDIT_NEXT "audit.log.new" /* becomes AUDIT_FILE when that is closed */
#define AUDIT_LINE_MAX 4096
#define AUDIT_HASH_TEXT 65 /* SHA-256 in hex, and its NUL */
#define AUDIT_CLOSED_MAX 32

/* The last members: ,"seq":N,"prev":"HEX"}. Lines of before there was a seq have only the last. */
struct audit_end {
	uint64_t seq; /* 0: none */
	char prev[AUDIT_HASH_TEXT];
};
/* line[0..len) without its newline: 0, or -1 when it ends otherwise. */
int audit_line_end(const char *line, size_t len, struct audit_end *);

/* "audit-000000000042.log": the closed file whose first line is this. Returns out. */
char *audit_closed_name(char out[AUDIT_CLOSED_MAX], uint64_t first);
/* 0 and *first, or -1 when it is no such name. */
int audit_closed_parse(const char *name, uint64_t *first);

#define AUDIT_INSTANCE_LEN 36
#define AUDIT_SIGNED_MAX 256
/* What is signed; returns its length. instance has no other than AUDIT_INSTANCE_LEN characters. */
size_t audit_signed_text(char out[AUDIT_SIGNED_MAX], const char *instance, uint64_t seq,
    const char *head, int64_t at_us);

#endif
