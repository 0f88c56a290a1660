/*
 * The key file: one JSON object a line says who may ask, for which tenant, what, from where and
 * until when. Lines that are empty or begin with '#' are skipped. Pure functions over bytes, for
 * managerd, which decides by it, and the command, which writes it.
 */
#ifndef COMMON_KEYS_FILE_H
#define COMMON_KEYS_FILE_H

#include <stddef.h>
#include <stdint.h>

#define KEYS_FILE_MAX ((size_t)4 << 20)
#define KEYS_LINE_MAX ((size_t)16 << 10)
#define KEYS_MAX 1024
#define KEYS_NAME_MAX 63 /* of a key or a tenant */
#define KEYS_SUBJECT_MAX 63
#define KEYS_NETS_MAX 32
#define KEYS_NEVER INT64_MAX
#define KEYS_TENANT "default" /* of a line without one, and of AGENT_SANDBOX_API_KEYS */

/* What a key may do, by bit: X(id, word in the file). admin stands for all, in every tenant. */
#define KEYS_SCOPES(X)      \
	X(READ, "read")     \
	X(EXEC, "exec")     \
	X(FILES, "files")   \
	X(MANAGE, "manage") \
	X(ADMIN, "admin")
#define KEYS_X_SCOPE_BIT(id, word) SCOPE_BIT_##id,
enum keys_scope_bit { KEYS_SCOPES(KEYS_X_SCOPE_BIT) KEYS_SCOPE_BITS };
#define KEYS_X_SCOPE(id, word) SCOPE_##id = 1 << SCOPE_BIT_##id,
enum keys_scope { KEYS_SCOPES(KEYS_X_SCOPE) };
#define KEYS_SCOPES_DEFAULT (SCOPE_READ | SCOPE_EXEC | SCOPE_FILES | SCOPE_MANAGE)

/* What all keys of a tenant may use together: X(id, word in the file, unit, least, most). With a
 * unit of 10^9 fractions are taken, and kept in billionths, as in the configuration. */
#define KEYS_QUOTA_TABLE(X)                                         \
	X(SANDBOXES, "sandboxes", 1, 0, 1000000)                    \
	X(CPUS, "cpus", 1000000000, 0, 1000000)                     \
	X(MEMORY_MB, "memory_mb", 1, 0, 1099511627776)              \
	X(SNAPSHOTS, "snapshots", 1, 0, 1000000)                    \
	X(SNAPSHOT_BYTES, "snapshot_bytes", 1, 0, 1099511627776000) \
	X(REQUESTS, "requests_per_second", 1, 1, 1000000)           \
	X(EXECS, "execs", 1, 0, 1000000)
#define KEYS_X_QUOTA(id, word, unit, least, most) QUOTA_##id,
enum keys_quota { KEYS_QUOTA_TABLE(KEYS_X_QUOTA) KEYS_QUOTAS };
#define KEYS_NO_QUOTA INT64_C(-1) /* not given: only the limits of the server */

/* The addresses whose first bits are those of addr; a v4 one is ::ffff:a.b.c.d, and its bits are
 * 96 more. */
struct keys_net {
	uint8_t addr[16];
	uint8_t bits;
};

struct keys_key {
	char name[KEYS_NAME_MAX + 1];
	char tenant[KEYS_NAME_MAX + 1];
	char certificate[KEYS_SUBJECT_MAX + 1]; /* common name of a client's; "": none */
	uint8_t digest[32];                     /* SHA-256 of the key */
	uint8_t has_digest;
	uint8_t scopes;    /* as written: admin alone is only its own bit */
	int64_t expires_s; /* seconds since 1970 */
	int64_t quota[KEYS_QUOTAS];
	struct keys_net from[KEYS_NETS_MAX];
	size_t nfrom;  /* 0: from everywhere */
	unsigned line; /* from 1 */
};

struct keys_file {
	struct keys_key *keys; /* NULL when there is none */
	size_t count;
};

/* A whole file: 0, to be freed; or -1, why ("line 7: …") and nothing to be freed. */
int keys_file_parse(const char *text, size_t n, struct keys_file *, char *why, size_t size);
void keys_file_free(struct keys_file *);
/* One line without its end, that is no comment: 0, or -1 and why as one line; sets all but line. */
int keys_line_parse(const char *text, size_t n, struct keys_key *, char *why, size_t size);
/* Whether a line holds no key: it is blank or a comment. */
int keys_line_empty(const char *text, size_t n);

const char *keys_scope_name(unsigned bit);
const char *keys_quota_name(enum keys_quota);
/* As in the file: "5", "1.5". */
#define KEYS_QUOTA_TEXT 32
char *keys_quota_text(char out[KEYS_QUOTA_TEXT], enum keys_quota, int64_t value);

/* Whether it is a name of a key or a tenant: a letter or digit, then these and "._-". */
int keys_name_valid(const char *);
/* "10.0.0.0/8", "2001:db8::1": 0, or -1 and *why, to stand behind it. */
int keys_net_parse(const char *text, struct keys_net *, const char **why);
#define KEYS_NET_TEXT 56
char *keys_net_text(char out[KEYS_NET_TEXT], const struct keys_net *);
int keys_net_covers(const struct keys_net *, const uint8_t addr[16]);
/* Whether the key is good from this address. All zeros, one that is not known, is in no network;
 * ::/0 has no v4 address. */
int keys_from_allows(const struct keys_key *, const uint8_t addr[16]);

#endif
