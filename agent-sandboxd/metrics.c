/* The parent's part in GET /metrics: the socket where it needs no key, and what only the parent can
 * see of the programs. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"
#include "common/procfs.h"

#define FIGURES_MS 1000 /* they are not looked at again before */
#define BACKLOG 64
_Static_assert(PROGRAM_KINDS + 1 == METRIC_PROGRAMS, "the parent is the last of the set PROGRAM");

void
metrics_listen(struct parent *p)
{
	const char *text = p->set.c.str[CFG_METRICS_LISTEN];
	const struct m_none none = {0};
	union loopback at;
	socklen_t len;
	int fd, on = 1;

	if (*text == '\0' || config_loopback(text, &at, &len) == -1)
		return;
	if ((fd = socket(at.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) == -1 ||
	    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1 ||
	    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == -1 ||
	    listen_bind_patiently(fd, &at.sa, len) == -1 || listen(fd, BACKLOG) == -1 ||
	    getsockname(fd, &at.sa, &len) == -1)
		fatal_config("AGENT_SANDBOX_METRICS_LISTEN: cannot listen on %s: %m", text);
	log_info("metrics at http://%.*s:%d/metrics", (int)(strrchr(text, ':') - text), text,
	    ntohs(at.v4.sin_port)); /* it lies where that of IPv6 does */
	send_P_METRICS(p->prog[PROG_APID].chan, 0, &none, NULL, 0, fd);
}

/* One that has ended meanwhile, or that may not be looked at, adds nothing. */
static void
add(struct m_figures *f, int kind, pid_t pid)
{
	int64_t memory = procfs_memory(pid), descriptors = procfs_descriptors(pid);

	f->processes[kind]++;
	f->memory[kind] += memory > 0 ? memory : 0;
	if (descriptors == -1)
		f->descriptors[kind] = -1;
	else if (f->descriptors[kind] != -1)
		f->descriptors[kind] += descriptors;
}

void
metrics_figures(struct parent *p, struct chan *c)
{
	static struct m_figures f;
	static int64_t looked_ms;

	if (looked_ms == 0 || now_ms() - looked_ms >= FIGURES_MS) {
		looked_ms = now_ms();
		memset(&f, 0, sizeof(f));
		f.restarts = p->restarts_total;
		for (int i = 0; i < LONG_LIVED; i++)
			add(&f, i, p->prog[i].pid);
		for (const struct process *s = p->sessions; s != NULL; s = s->next)
			add(&f, PROG_SESSIOND, s->pid);
		add(&f, PROGRAM_KINDS, getpid());
	}
	send_P_FIGURES(c, 0, &f, NULL, 0, -1);
}
