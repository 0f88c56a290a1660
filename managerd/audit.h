/*
 * The audit log: one JSON object a line, each with its number and the SHA-256 of the line before.
 * Append only. docs/AUDIT-LOG.md has every member.
 */
#ifndef MANAGERD_AUDIT_H
#define MANAGERD_AUDIT_H

#include <stddef.h>
#include <stdint.h>

struct event_base;
struct m_ask;
struct request;

#define AUDIT_REFUSALS 10 /* lines a second */

struct audit_rules {
	int64_t max_bytes; /* a file of this size is closed */
	int64_t keep;      /* closed files; 0: all */
	int refuse;        /* what changes something, when there is no room */
	int sync_each;     /* line; else once a second */
	int keyd_fd;       /* who signs; 0: nobody */
	const char *instance;
	int64_t checkpoint_seconds;
	void (*syslog_ask)(void); /* for a socket, see audit_syslog.h; NULL: no copies */
};

/* Opens or makes it in the current folder. Fatal. base may be NULL. */
void audit_open(const struct audit_rules *, struct event_base *);
/* No room for what may come, or lines were lost; and whether therefore nothing new may begin. What
 * makes room may, while there is some for its lines. */
int audit_stuck(void);
int audit_refuses(int makes_room);

struct audit_stats {
	uint64_t lines;
	uint64_t lost; /* lines that found no room */
	uint64_t bytes;
	uint64_t checkpoints;
	uint64_t syslog_lost; /* copies */
	int64_t lag_us;       /* age of the oldest line that is not durable yet */
	int stuck;
};
/* Since the start. */
void audit_stats(struct audit_stats *);

void audit_request(const struct request *, uint32_t status, const int32_t *exit_code);
/* One without a line of its own; the reason is a constant. */
void audit_unseen(uint32_t status, const char *reason);
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
/* The server's own life: it begins (version, and a hash of the settings), is ended, a clock was
 * set. */
void audit_start(const char *settings_sha256);
/* A program or, with a sandbox, a session that ended by itself; status as from waitpid(2). */
void audit_died(const char *program, uint64_t sandbox, int status);
/* A file of keys or certificates was read again; why: it was not, or NULL. */
void audit_reload(const char *what, const char *why);
/* Once; waits a moment for the last signature. */
void audit_stop(void);
/* What happens once a second: the sums of what had no line, the clock, audit_log_tick(). */
void audit_tick(void);

#endif
