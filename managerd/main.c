/*
 * managerd decides who may do what, and keeps the sandboxes, the snapshots and the audit log. It
 * has no network, starts no program, and never sees a byte of a guest: it hands descriptors on.
 */
#include <bsd/string.h>
#include <event2/event.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "common/chan_event.h"
#include "common/log.h"
#include "managerd/audit.h"
#include "managerd/audit_file.h"
#include "managerd/audit_sign.h"
#include "managerd/audit_syslog.h"
#include "managerd/destroy.h"
#include "managerd/dial.h"
#include "managerd/egress.h"
#include "managerd/engine.h"
#include "managerd/fds.h"
#include "managerd/instance.h"
#include "managerd/keys.h"
#include "managerd/keysfile.h"
#include "managerd/load.h"
#include "managerd/manager.h"
#include "managerd/pool.h"
#include "managerd/revoke.h"
#include "managerd/session.h"
#include "managerd/store.h"
#include "proto/apid_managerd.h"
#include "proto/managerd_dockerd.h"
#include "proto/managerd_egressd.h"
#include "proto/parent.h"

#define DRAIN_STEP_US 20000
#define DRAIN_STEPS 150 /* of that, after apid has ended; less than the parent waits */

struct manager mgr;
static int ready_wanted; /* it waits for the keys only */

static void
drain(void)
{
	wreck_hurry();
	pool_drain();
}

/* For the audit log: what only the parent knows. */
static void
note_arrived(const struct msg *m)
{
	const struct m_note *note = m->payload;
	const char *why = m->tail + strlen(m->tail);

	switch (note->what) {
	case NOTE_DIED:
		audit_died(m->tail, 0, note->status);
		break;
	case NOTE_RELOADED:
		audit_reload(m->tail, NULL);
		break;
	default:
		audit_reload(m->tail, why < m->tail + m->tail_len ? why + 1 : "");
	}
}

static void
syslog_arrived(int fd)
{
	if (!CFG(AUDIT_SYSLOG) || (fd != -1 && !fd_is_socket(fd, SOCK_DGRAM)))
		fatalx("the parent sent a syslog that is none, or not wanted");
	audit_syslog_use(fd);
}

static void
syslog_ask(void)
{
	const struct m_none none = {0};

	send_P_SYSLOG_ASK(mgr.parent, 0, &none, NULL, 0, -1);
}

void
parent_message(struct chan *c, struct msg *m)
{
	const struct m_session *session = m->payload;
	const struct m_session_over *over = m->payload;

	(void)c;
	switch (m->type) {
	case MSG_P_SESSION:
		session_arrived(session->session, msg_take_fd(m));
		break;
	case MSG_P_SESSION_OVER:
		session_over(over->session, over->status);
		break;
	case MSG_P_PARTIAL:
		mgr.partial = 1;
		break;
	case MSG_P_KEYS:
		keysfile_arrived(msg_take_fd(m));
		if (ready_wanted)
			manager_ready();
		break;
	case MSG_P_NOTE:
		note_arrived(m);
		break;
	case MSG_P_SYSLOG:
		syslog_arrived(msg_take_fd(m));
		break;
	case MSG_P_DRAIN:
		drain();
		break;
	default:
		fatalx("the parent sent a setup message again");
	}
}

static void __attribute__((noreturn)) leave(void)
{
	sessions_told();
	audit_stop();
	exit(0);
}

static void
peer_gone(struct chan *c)
{
	log_debug("%s is gone, so am I", (const char *)chan_arg(c));
	leave();
}

/* Nobody waits for a run any more; what is still being made for one is ended when it is there. */
static void
run_end(struct box *box, void *arg)
{
	if (!box->run)
		return;
	++*(size_t *)arg;
	if (box->state == BOX_RUNNING || box->state == BOX_STOPPED)
		box_destroy(box, END_SHUTDOWN, NULL);
}

static size_t
runs_left(void)
{
	size_t n = 0;

	box_each(run_end, &n);
	return n;
}

/* The last is done when nothing is left of the pool and of runs, or time is up. */
static void
ending(evutil_socket_t fd, short what, void *arg)
{
	static int rounds;
	struct timeval moment = {0, DRAIN_STEP_US};

	(void)fd, (void)what, (void)arg;
	if (runs_left() + wreck_pool() == 0 || !engine_up() || ++rounds > DRAIN_STEPS)
		leave();
	if (event_base_once(mgr.base, -1, EV_TIMEOUT, ending, NULL, &moment) == -1)
		leave();
}

/* Nobody asks for anything any more. */
static void
apid_gone(struct chan *c)
{
	(void)c;
	log_debug("apid is gone, so am I");
	drain();
	ending(-1, 0, NULL);
}

void
manager_ready(void)
{
	static int told;

	ready_wanted = 1;
	if (told || !keysfile_known())
		return;
	told = 1;
	/* After a restart the port is open already: what came meanwhile has waited in the channel.
	 */
	mgr.apid = chan_event_new(
	    mgr.base, FD_PEER, &apid_managerd_proto, MANAGERD, APID, apid_message, apid_gone, NULL);
	chan_event_hold(mgr.apid);
	child_ready(&mgr.child, mgr.parent);
}

static void
keys_configured(void)
{
	char *keys = CFG_TEXT(API_KEYS);

	if (keys_load(keys) == -1)
		fatal_config("AGENT_SANDBOX_API_KEYS: at most %d keys, each at least %d characters",
		    KEYS_MAX, KEYS_TEXT_MIN);
	explicit_bzero(keys, strlen(keys));
	if (keys_count() > 0 || *CFG_TEXT(KEYS_FILE) != '\0')
		return;
	if (!CFG(INSECURE_NO_AUTH))
		fatal_config("AGENT_SANDBOX_API_KEYS: no key is configured");
	keys_open();
}

/* From here on in canonical form, in the configuration itself. */
static void
egress_load(void)
{
	char **setting = &CFG_TEXT(EGRESS_ALLOWLIST), *list = egress_server_list(*setting);

	free(*setting);
	*setting = list;
}

/* Of all that managerd was told but keys: who changes a setting changes this. */
static void
settings_hash(char out[AUDIT_HASH_TEXT])
{
	char *text, **str = mgr.child.config.str;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (f == NULL)
		fatal("settings");
	for (int i = 0; i < CONFIG_KEYS; i++)
		if (i != CFG_API_KEYS)
			fprintf(f, "%d %lld %s\n", i, (long long)mgr.child.config.num[i],
			    str[i] != NULL ? str[i] : "");
	fclose(f);
	audit_hash(text, len, out);
	free(text);
}

static void
trail_open(void)
{
	const struct audit_rules rules = {.max_bytes = CFG(AUDIT_MAX_MB) * 1024 * 1024,
	    .keep = CFG(AUDIT_KEEP),
	    .refuse = strcmp(CFG_TEXT(AUDIT_FULL), "refuse") == 0,
	    .keyd_fd = FD_FOURTH,
	    .instance = mgr.uuid,
	    .checkpoint_seconds = CFG(AUDIT_CHECKPOINT_SECONDS),
	    .syslog_ask = CFG(AUDIT_SYSLOG) ? syslog_ask : NULL,
	    .sync_each = strcmp(CFG_TEXT(AUDIT_SYNC), "line") == 0};
	char hash[AUDIT_HASH_TEXT];

	audit_open(&rules, mgr.base);
	settings_hash(hash);
	audit_start(hash);
	audit_sign_on_gone(leave);
}

static void
data_open(void)
{
	int foreign;

	store_open();
	foreign = instance_open(mgr.child.instance);
	trail_open();
	load_records(foreign);
}

static void
warm_up(void)
{
	json_object_seed(0); /* opens a file once */
	keys_configured();   /* libcrypto reads its configuration */
	egress_load();
	instance_warm();
}

/* The parent ends all of us: what exit(3) has to do is done. */
static void
on_term(evutil_socket_t sig, short what, void *arg)
{
	(void)sig, (void)what, (void)arg;
	leave();
}

int
main(void)
{
	struct event *term;
	struct chan *parent;

	child_setup(&mgr.child, "managerd", 4);
	warm_up();
	if ((mgr.base = event_base_new()) == NULL)
		fatalx("event_base_new");
	mgr.child.state = manager_state;
	mgr.child.leave = leave;
	child_confine(&mgr.child, &managerd_confine);
	parent = child_run(&mgr.child, mgr.base, &parent_managerd_proto, parent_message);
	mgr.parent = parent;
	mgr.partial = mgr.child.partial;
	mgr.docker = chan_event_new(mgr.base, FD_SECOND, &managerd_dockerd_proto, MANAGERD,
	    DOCKERD_PROXY, engine_message, peer_gone, (void *)"dockerd-proxy");
	mgr.egress = chan_event_new(mgr.base, FD_THIRD, &managerd_egressd_proto, MANAGERD, EGRESSD,
	    dial_message, peer_gone, (void *)"egressd");
	if ((term = evsignal_new(mgr.base, SIGTERM, on_term, NULL)) == NULL ||
	    event_add(term, NULL) == -1)
		fatalx("event: SIGTERM");
	data_open();
	session_start();
	dial_start();
	engine_start();
	pool_start();
	load_finish();
	reap_start();
	revoke_start();
	if (event_base_dispatch(mgr.base) == -1)
		fatalx("event loop");
	return 0;
}
