/* The parent's state, and what its files offer each other. */
#ifndef AGENT_SANDBOXD_PARENT_H
#define AGENT_SANDBOXD_PARENT_H

#include <sys/types.h>
#include <stdint.h>
#include <time.h>

#include "common/chan.h"
#include "config/settings.h"
#include "proto/parent.h"

#define LISTEN_FD 3 /* in the parent, so that a restart finds it */
#define RESTARTS_MAX 10
#define RESTART_WINDOW_MS (300 * 1000)
#define LOAD_MS (600 * 1000) /* managerd reads its records first, and starting anew begins anew */
#define READY_MS (30 * 1000)
#define TLS_FILES_MAX 16
#define KEYS_WHY_MAX (2 * PARENT_PATH_MAX + 128)

enum program_index {
	PROG_APID,
	PROG_MANAGERD,
	PROG_DOCKERD_PROXY,
	PROG_EGRESSD,
	PROG_KEYD,
	PROG_SESSIOND,
	PROGRAM_KINDS
};
#define LONG_LIVED PROG_SESSIOND /* those before it */

/* Whether a program answers (notify.c). */
enum ping { PING_ANSWERED, PING_ASKED, PING_LATE };

struct parent;

/* One running program. Sessions are these too, with an id of managerd's. */
struct process {
	struct parent *parent;
	enum program_index kind;
	pid_t pid; /* 0: not running */
	struct chan *chan;
	int ready;
	enum ping ping;
	int want; /* enum chan_want */
	int64_t started_ms;
	uint64_t session;
	struct process *next;
};

/* What tells one engine's socket from its successor. */
struct engine_id {
	int exists;
	dev_t dev;
	ino_t ino;
	gid_t gid;
	mode_t mode;
	struct timespec changed;
};

/* Why the loop ended. */
enum outcome { RUNNING, STOPPED, DIED, ENGINE_CHANGED, MISCONFIGURED };

/* The files of a generation of certificates, from their opening until apid has them. */
struct tls {
	uint32_t generation;   /* that was begun last; 0: no TLS */
	int again;             /* another SIGHUP came meanwhile */
	struct process *asked; /* whose answer is waited for; NULL: nothing is under way */
	int64_t asked_ms;
	uint32_t count;
	int certs[TLS_FILES_MAX]; /* -1: none, or handed on */
	int client_ca;
};

struct parent {
	struct settings set;
	struct tls tls;
	int as_root;
	int partial;      /* the parent's own confinement is weaker than asked */
	int unfiltered;   /* the packet filter rules for sandboxes were not loaded */
	int told_partial; /* managerd knows that something is */
	enum instance_rule instance;
	int null_fd;
	int listening;
	char resolvers[RESOLV_MAX];     /* as egressd was told */
	char self[PARENT_PATH_MAX];     /* this program */
	char dir[PARENT_PATH_MAX];      /* of the programs */
	char data_dir[PARENT_PATH_MAX]; /* absolute */
	char url[128];
	uid_t uid[PROGRAM_KINDS];
	gid_t gid[PROGRAM_KINDS];
	struct engine_id engine;  /* as the programs were told */
	struct engine_id pending; /* seen once, and not yet acted on */
	struct process prog[LONG_LIVED];
	struct process *sessions;
	size_t nsessions;
	enum outcome outcome;
	int died, died_status;          /* program and 1, for the audit log; 0: none has */
	int killing;                    /* the last step of ending all */
	int64_t restarts[RESTARTS_MAX]; /* boot time in ms of the counted ones; oldest first */
	size_t nrestarts;
	int64_t restarts_total; /* since the parent was started first */
};

extern const char *const program_names[PROGRAM_KINDS];
int64_t now_ms(void);

/* listen.c: binds HOST and PORT to LISTEN_FD and writes what it got back to the settings. Wrong:
 * EXIT_CONFIG. */
void listen_bind(struct parent *);
/* After a restart the socket is there already. */
void listen_inherit(struct parent *);
void listen_open(struct parent *);

/* Waits a little for a port that is not free yet. */
int listen_bind_patiently(int fd, const struct sockaddr *, socklen_t len);

/* metrics.c: opens AGENT_SANDBOX_METRICS_LISTEN, if it is set, for apid. Wrong: EXIT_CONFIG. */
void metrics_listen(struct parent *);
/* Sends apid what only the parent can see. */
void metrics_figures(struct parent *, struct chan *);

/* paths.c. Wrong: EXIT_CONFIG. */
void paths_programs(struct parent *);
void paths_users(struct parent *);
void paths_data_dir(struct parent *);
void paths_engine(const struct parent *, struct engine_id *);
int paths_engine_differs(const struct engine_id *, const struct engine_id *);
/* Whether the engine's socket is gone or another than the programs were told: then their death is
 * no fault of theirs. */
int paths_engine_moved(const struct parent *);

/* resolv.c: reads /etc/resolv.conf; egressd is told at the start, and when it has changed. */
void resolv_send(struct parent *);
void resolv_check(struct parent *);

/* tls.c: opens the files of certificates and hands them on: keys to keyd, then the rest to apid. At
 * the start what is wrong is EXIT_CONFIG; later the certificates in use stay. */
void tls_start(struct parent *);
void tls_reload(struct parent *);
void tls_answer(struct process *, struct msg *);
/* Who does not answer is of no use: then all begins anew. */
void tls_overdue(struct parent *);

/* audit.c: makes and opens what keyd keeps of the audit log, and sends it. Wrong: EXIT_CONFIG. */
void audit_send(struct parent *);
/* What managerd cannot know: for its log. why: NULL, or what was wrong. */
void audit_note(struct parent *, enum note, int status, const char *text, const char *why);
/* managerd wants a socket to syslog. */
void audit_syslog(struct parent *);

/* keysfile.c: opens AGENT_SANDBOX_KEYS_FILE, if there is one, and sends it to managerd. 0, or -1
 * and why. */
int keys_send(struct parent *, char *why, size_t size);
/* The same at SIGHUP: a file that is wrong costs a line in the log. */
void keys_reload(struct parent *);

/* start.c: all long-lived programs with the channels between them. Out of descriptors or processes:
 * fatal. */
void start_all(struct parent *);
/* One sessiond; *managerd_end is managerd's end of their channel. NULL: it could not be started,
 * and why is logged. */
struct process *start_session(struct parent *, uint64_t session, int *managerd_end);

/* sessions.c: what only managerd may ask, and a session's end. */
void sessions_message(struct chan *, struct msg *);
void sessions_over(struct parent *, struct process *, int status);
void sessions_overdue(struct parent *);

/* notify.c: what a service manager is told, if there is one. */
void notify_open(void);
void notify(const char *state);
void notify_reloading(void);
void notify_tick(struct parent *);

/* watch.c: runs until something ends it, then ends every program. */
enum outcome watch_run(struct parent *);
void watch_end_all(struct parent *);
void watch_signals(void);
void watch_message(struct chan *, struct msg *);
void watch_gone(struct chan *);
void watch_want(struct chan *, int want);
void watch_breach(struct chan *, const char *why);

/* restart.c: what a re-exec hands to its successor, as one argument. */
void restart_parse(struct parent *, const char *state);
void restart_exec(struct parent *, char **argv, int counted) __attribute__((noreturn));

#endif
