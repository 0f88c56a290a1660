/*
 * What the service manager is told, if one started us and wants to know: datagrams of text to
 * NOTIFY_SOCKET, as in sd_notify(3). With WATCHDOG_USEC also that all is well, again and again, as
 * long as every program answers.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent-sandboxd/parent.h"
#include "common/log.h"

static int notify_fd = -1;
static int reloading;
static int64_t every_ms; /* 0: no watchdog */
static int64_t next_ms;

void
notify_open(void)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	const char *path = getenv("NOTIFY_SOCKET"), *usec = getenv("WATCHDOG_USEC");
	size_t len = path == NULL ? 0 : strlen(path);

	if (len == 0 || len >= sizeof(sa.sun_path))
		return;
	memcpy(sa.sun_path, path, len);
	if (*path == '@') /* a name without a file */
		sa.sun_path[0] = '\0';
	notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (notify_fd == -1 || connect(notify_fd, (const struct sockaddr *)&sa,
				   offsetof(struct sockaddr_un, sun_path) + len) == -1)
		log_warn("NOTIFY_SOCKET: %s", path);
	else if (usec != NULL)
		every_ms = strtoll(usec, NULL, 10) / 1000 / 4;
}

void
notify(const char *state)
{
	if (notify_fd != -1)
		send(notify_fd, state, strlen(state), MSG_NOSIGNAL);
}

void
notify_reloading(void)
{
	notify("RELOADING=1");
	reloading = 1;
}

/* Whether all have answered. Who sleeps is not asked again: nothing piles up. */
static int
all_answer(struct parent *p)
{
	for (int i = 0; i < LONG_LIVED; i++) {
		if (p->prog[i].ping == PING_ASKED)
			log_warnx("%s[%d] does not answer", program_names[i], p->prog[i].pid);
		if (p->prog[i].ping != PING_ANSWERED) {
			p->prog[i].ping = PING_LATE;
			return 0;
		}
	}
	return 1;
}

void
notify_tick(struct parent *p)
{
	const struct m_none none = {0};

	if (reloading && p->tls.asked == NULL) {
		reloading = 0;
		notify("READY=1");
	}
	/* While they start, deadlines of their own watch them. */
	if (every_ms <= 0 || now_ms() < next_ms || (p->listening && !all_answer(p)))
		return;
	notify("WATCHDOG=1");
	next_ms = now_ms() + every_ms;
	for (int i = 0; p->listening && i < LONG_LIVED; i++) {
		if (p->prog[i].chan == NULL)
			continue;
		p->prog[i].ping = PING_ASKED;
		send_P_PING(p->prog[i].chan, 0, &none, NULL, 0, -1);
	}
}
