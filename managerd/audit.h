/* The audit log: one JSON object a line, each with the SHA-256 of the line before. Append only. */
#ifndef MANAGERD_AUDIT_H
#define MANAGERD_AUDIT_H

#include <stddef.h>
#include <stdint.h>
#include <stdint.h>

struct event_base;
struct m_ask;
struct request;

#define AUDIT_FILE "audit.log"
#define AUDIT_LINE_MAX 4096
#define AUDIT_REFUSALS 10 /* lines a second */

/* Opens or makes it in the current root; a torn last line becomes a "recovered" entry. Fatal. base
 * may be NULL. */
void audit_open(struct event_base *);
void audit_request(const struct request *, uint32_t status, const int32_t *exit_code);
/* A request that was not let in. key: whose key it is, or NULL. Lines beyond AUDIT_REFUSALS in a
 * second are only counted, by reason. */
struct key;
void audit_refused(const struct m_ask *, const struct key *, const char *action, uint32_t status,
    const char *reason);
/* Something that managerd did by itself: a time to live that was over, a sandbox that the engine
 * lost. */
void audit_own(const char *action, const char *target, const char *why);
/* A connection that left a sandbox, or was not let out, when it is over. */
struct audit_dial {
	uint64_t sandbox;
	const char *name; /* as it was said inside: any bytes */
	size_t name_len;
	const char *address; /* "": none was found, or asked for */
	uint16_t port;
	uint32_t verdict; /* enum dial_verdict */
	const char *why;
	int64_t bytes_in; /* into the sandbox; -1: not known */
	int64_t bytes_out;
	int64_t duration_us;
};
void audit_dial(const struct audit_dial *);
/* What a sandbox had of them in a second beyond that. */
void audit_dials(uint64_t sandbox, unsigned count);
/* What happens once a second: the sums of what had no line, fdatasync. */
void audit_tick(void);

#endif
