/* The audit log: one JSON object a line, each with the SHA-256 of the line before. Append only. */
#ifndef MANAGERD_AUDIT_H
#define MANAGERD_AUDIT_H

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct m_ask;
struct request;

#define AUDIT_FILE "audit.log"
#define AUDIT_LINE_MAX 4096
#define AUDIT_REFUSALS 10 /* lines a second without a valid key */

/* Opens or makes it in the current root; a torn last line becomes a "recovered" entry. Fatal. base
 * may be NULL. */
void audit_open(struct event_base *);
void audit_request(const struct request *, uint32_t status, const int32_t *exit_code);
/* A request without a valid key. */
void audit_refused(const struct m_ask *, const char *action);
/* Something that managerd did by itself: a time to live that was over, a sandbox that the engine
 * lost. */
void audit_own(const char *action, const char *target, const char *why);
/* What happens once a second: the summary of refusals, fdatasync. */
void audit_tick(void);

#endif
