/* The start of a program that agent-sandboxd runs, as far as it needs no event loop; see child.h.
 */
#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "proto/parent.h"

#ifdef PROBE /* builds of the confinement tests only */
#include "tests/tools/probe.h"
#endif

#define CONFIG_X_TYPE(key, type, def, lo, hi, to, doc) CONFIG_##type,

static const uint8_t config_types[] = {CONFIG_TABLE(CONFIG_X_TYPE)};

struct setup {
	struct child *child;
	int have_setup, started;
	uint8_t have[CONFIG_KEYS];
};

#define CASE_PARENT(name, pay) CHAN_CASE(name, pay)
#define CASE_CHILD(name, pay)
#define HANDLER_PARENT(name, pay) CHAN_HANDLER(name, pay)
#define HANDLER_CHILD(name, pay)

PARENT_CHILD(CHAN_X_HANDLER)

static void
on_P_SETUP(struct chan *c, const struct m_setup *p, struct msg *m)
{
	struct setup *s = chan_arg(c);
	struct child *child = s->child;

	if (s->have_setup || m->tail_len >= sizeof(child->root_path) ||
	    memchr(m->tail, '\0', m->tail_len) != NULL || p->log_level > LOG_LEVEL_DEBUG)
		fatalx("parent: bad setup");
	s->have_setup = 1;
	memcpy(child->root_path, m->tail, m->tail_len + 1);
	child->ids = (struct confine_ids){.uid = p->uid,
	    .gid = p->gid,
	    .extra_gid = p->extra_gid,
	    .path = child->root_path,
	    .as_root = p->as_root,
	    .allow_weaker = p->allow_weaker};
	child->partial = p->partial != 0;
	child->instance = p->instance;
	child->unfiltered = p->unfiltered;
	log_set_level((enum log_level)p->log_level);
	log_set_json(p->log_json);
}

static void
on_P_CONFIG(struct chan *c, const struct m_config *p, struct msg *m)
{
	struct setup *s = chan_arg(c);
	int is_string;

	if (!s->have_setup || p->key >= CONFIG_KEYS || s->have[p->key])
		fatalx("parent: configuration key %u: unknown, twice or early", (unsigned)p->key);
	is_string = config_types[p->key] == CONFIG_STR;
	if ((!is_string && m->tail_len != 0) || memchr(m->tail, '\0', m->tail_len) != NULL)
		fatalx("parent: configuration key %u: not of its type", (unsigned)p->key);
	s->have[p->key] = 1;
	if (!is_string) {
		s->child->config.num[p->key] = p->num;
		return;
	}
	free(s->child->config.str[p->key]);
	if ((s->child->config.str[p->key] = strdup(m->tail)) == NULL)
		fatalx("out of memory");
	/* What was received may be keys, and must not stay where later messages overwrite only a
	 * part of it. */
	explicit_bzero((char *)(uintptr_t)m->tail, m->tail_len);
}

static void
on_P_START(struct chan *c, const struct m_none *p, struct msg *m)
{
	struct setup *s = chan_arg(c);

	(void)p;
	(void)m;
	if (!s->have_setup)
		fatalx("parent: start without setup");
	s->started = 1;
}

static void
on_P_PING(struct chan *c, const struct m_none *p, struct msg *m)
{
	(void)c;
	(void)p;
	(void)m;
	fatalx("parent: asked before the start");
}

static void
on_P_STATE(struct chan *c, const struct m_none *p, struct msg *m)
{
	on_P_PING(c, p, m);
}

static void
dispatch(struct chan *c, struct msg *m)
{
	switch (m->type) {
		PARENT_CHILD(CHAN_X_CASE)
	}
}

static void
parent_gone(struct chan *c)
{
	(void)c;
	log_debug("the parent has gone");
	exit(0);
}

/* A program without its string must not crash on it: what was not sent is "". */
static void
empty_strings(struct config *config)
{
	int i;

	for (i = 0; i < CONFIG_KEYS; i++)
		if (config_types[i] == CONFIG_STR && (config->str[i] = strdup("")) == NULL)
			fatalx("out of memory");
}

/*
 * Reads packet by packet, so that nothing behind P_START is taken, and on a copy of the descriptor,
 * since the channel that the program then makes of it (child_run) is another.
 */
void
child_setup(struct child *child, const char *name, int nfds)
{
	struct setup s = {.child = child};
	struct pollfd pfd = {.events = POLLIN};
	struct chan *c;

	log_init(name, LOG_LEVEL_INFO);
	closefrom(FD_PEER + nfds);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	memset(child, 0, sizeof(*child));
	empty_strings(&child->config);
	if ((pfd.fd = fcntl(FD_PARENT, F_DUPFD_CLOEXEC, FD_PEER + nfds)) == -1)
		fatal("descriptor %d (only agent-sandboxd starts this program)", FD_PARENT);
	c = chan_new(pfd.fd, &parent_child_proto, CHILD, PARENT, dispatch, parent_gone, &s);
	if (c == NULL)
		fatalx("out of memory");
	while (!s.started) {
		if (poll(&pfd, 1, -1) == -1 && errno != EINTR)
			fatal("poll");
		chan_read_one(c);
	}
	chan_free(c);
}

void
child_confine(struct child *child, const struct confine *confine)
{
	if (confine_enter(confine, &child->ids) != 0)
		child->partial = 1;
#ifdef PROBE
	probe_run();
#endif
}
