/*
 * Starts programs: the channels for the edges that exist and no others, fork, exec with fixed
 * descriptors and nothing else, then the setup and the rows of the configuration that this program
 * needs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <bsd/unistd.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

#define FDS_MAX 5     /* parent, peer, second, third, fourth */
#define FD_SCRATCH 16 /* above all fixed ones */

#define ROW(key, type, def, lo, hi, to, doc) {to, CONFIG_##type},
static const struct {
	uint8_t to;
	uint8_t type; /* enum config_type */
} rows[CONFIG_KEYS] = {CONFIG_TABLE(ROW)};
static const uint8_t program_bit[PROGRAM_KINDS] = {
    TO_APID, TO_MANAGERD, TO_DOCKERD_PROXY, TO_EGRESSD, TO_KEYD, TO_SESSIOND};

static int
make_pair(int pair[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
}

/* In the child: descriptors 3, 4 … are fds in this order, and there are no others. Only calls safe
 * after fork. */
static void __attribute__((noreturn))
exec_program(const char *path, const char *name, int null_fd, const int *fds, int nfds)
{
	char *const argv[] = {(char *)(uintptr_t)name, NULL}, *const envp[] = {NULL};
	int high[FDS_MAX];
	sigset_t none;

	for (int i = 0; i < nfds; i++)
		if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, FD_SCRATCH)) == -1)
			_exit(126);
	if (dup2(null_fd, 0) == -1 || dup2(null_fd, 1) == -1)
		_exit(126);
	for (int i = 0; i < nfds; i++)
		if (dup2(high[i], FD_PARENT + i) == -1)
			_exit(126);
	closefrom(FD_PARENT + nfds);
	/* No terminal: a key pressed there is for the parent, which ends the others in order. */
	setsid();
	for (int sig = 1; sig < NSIG; sig++)
		if (sig != SIGPIPE)
			signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(path, argv, envp);
	_exit(127);
}

/* fds[0] is filled in here: the parent's channel. Returns -1 when there is no process or descriptor
 * to be had. */
static int
spawn(struct parent *p, struct process *proc, enum program_index kind, int *fds, int nfds)
{
	static const struct chan_proto *const protos[PROGRAM_KINDS] = {&parent_apid_proto,
	    &parent_managerd_proto, &parent_child_proto, &parent_egressd_proto, &parent_keyd_proto,
	    &parent_child_proto};
	char path[PARENT_PATH_MAX + PARENT_NAME_MAX];
	int pair[2];

	if (make_pair(pair) == -1)
		return -1;
	snprintf(path, sizeof(path), "%s/%s", p->dir, program_names[kind]);
	fds[0] = pair[1];
	memset(proc, 0, sizeof(*proc));
	if ((proc->pid = fork()) == 0)
		exec_program(path, program_names[kind], p->null_fd, fds, nfds);
	close(pair[1]);
	if (proc->pid == -1) {
		close(pair[0]);
		return -1;
	}
	/* Without a channel it sees the end of its own, and leaves. */
	proc->chan =
	    chan_new(pair[0], protos[kind], PARENT, CHILD, watch_message, watch_gone, proc);
	if (proc->chan == NULL)
		return -1;
	chan_on_breach(proc->chan, watch_breach);
	chan_on_want_write(proc->chan, watch_want, NULL);
	proc->parent = p;
	proc->kind = kind;
	proc->started_ms = now_ms();
	return 0;
}

/* A program without a path gets none; only dockerd-proxy has a second group, the one that may use
 * the engine. */
static void
send_setup(struct parent *p, struct process *proc)
{
	const struct engine_id *engine = &p->engine;
	struct m_setup setup = {.uid = p->uid[proc->kind],
	    .gid = p->gid[proc->kind],
	    .extra_gid = UINT32_MAX,
	    .as_root = p->as_root,
	    .allow_weaker = p->set.c.num[CFG_ALLOW_WEAKER],
	    .partial = p->partial,
	    .unfiltered = p->unfiltered,
	    .log_level = p->set.c.num[CFG_LOG_LEVEL],
	    .log_json = p->set.c.num[CFG_LOG_FORMAT] != 0};
	const char *path = "";
	char why[KEYS_WHY_MAX];
	struct m_none none = {0};

	if (proc->kind == PROG_MANAGERD) {
		path = p->data_dir;
		setup.instance = p->instance;
	} else if (proc->kind == PROG_DOCKERD_PROXY && engine->exists) {
		path = p->set.engine;
		if ((engine->mode & S_IWOTH) == 0)
			setup.extra_gid = engine->gid;
	}
	send_P_SETUP(proc->chan, 0, &setup, path, strlen(path), -1);
	for (int key = 0; key < CONFIG_KEYS; key++) {
		struct m_config row = {.key = key, .num = p->set.c.num[key]};
		const char *str = rows[key].type == CONFIG_STR ? p->set.c.str[key] : "";

		if ((rows[key].to & program_bit[proc->kind]) != 0)
			send_P_CONFIG(proc->chan, 0, &row, str, strlen(str), -1);
	}
	send_P_START(proc->chan, 0, &none, NULL, 0, -1);
	if (proc->kind == PROG_EGRESSD)
		resolv_send(p);
	else if (proc->kind == PROG_APID)
		metrics_listen(p);
	else if (proc->kind == PROG_KEYD)
		audit_send(p);
	else if (proc->kind == PROG_MANAGERD && p->died > 0) {
		audit_note(p, NOTE_DIED, p->died_status, program_names[p->died - 1], NULL);
		p->died = 0;
	}
	if (proc->kind == PROG_MANAGERD && keys_send(p, why, sizeof(why)) == -1)
		fatal_config("AGENT_SANDBOX_KEYS_FILE: %s", why);
}

void
start_all(struct parent *p)
{
	int api[2], docker[2], egress[2], key[2], trail[2];

	if (make_pair(api) == -1 || make_pair(docker) == -1 || make_pair(egress) == -1 ||
	    make_pair(key) == -1 || make_pair(trail) == -1)
		fatal("socketpair");
	int fds[LONG_LIVED][FDS_MAX] = {
	    [PROG_APID] = {-1, api[0], LISTEN_FD, key[0]},
	    [PROG_MANAGERD] = {-1, api[1], docker[0], egress[0], trail[0]},
	    [PROG_DOCKERD_PROXY] = {-1, docker[1]},
	    [PROG_EGRESSD] = {-1, egress[1]},
	    [PROG_KEYD] = {-1, key[1], trail[1]},
	};
	const int nfds[LONG_LIVED] = {[PROG_APID] = 4,
	    [PROG_MANAGERD] = 5,
	    [PROG_DOCKERD_PROXY] = 2,
	    [PROG_EGRESSD] = 2,
	    [PROG_KEYD] = 3};

	for (int i = 0; i < LONG_LIVED; i++)
		if (spawn(p, &p->prog[i], i, fds[i], nfds[i]) == -1)
			fatal("cannot start %s", program_names[i]);
	close(api[0]);
	close(api[1]);
	close(docker[0]);
	close(docker[1]);
	close(egress[0]);
	close(egress[1]);
	close(key[0]);
	close(key[1]);
	close(trail[0]);
	close(trail[1]);
	for (int i = 0; i < LONG_LIVED; i++)
		send_setup(p, &p->prog[i]);
	tls_start(p);
}

struct process *
start_session(struct parent *p, uint64_t session, int *managerd_end)
{
	struct process *proc = calloc(1, sizeof(*proc));
	int pair[2], fds[FDS_MAX];

	if (proc == NULL || make_pair(pair) == -1) {
		log_warn("sessiond");
		free(proc);
		return NULL;
	}
	fds[1] = pair[1];
	if (spawn(p, proc, PROG_SESSIOND, fds, 2) == -1) {
		log_warn("cannot start sessiond");
		close(pair[0]);
		close(pair[1]);
		free(proc);
		return NULL;
	}
	close(pair[1]);
	proc->session = session;
	send_setup(p, proc);
	*managerd_end = pair[0];
	return proc;
}
