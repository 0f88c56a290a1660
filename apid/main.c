/* apid: HTTP/1.1 in, typed requests to managerd out. It holds no key, no file, and cannot connect
 * to anything. */
#include <event2/event.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <bsd/stdlib.h>

#include "apid/apid.h"
#include "apid/auth.h"
#include "apid/gate.h"
#include "apid/keyd.h"
#include "apid/managerd.h"
#include "apid/metrics.h"
#include "apid/parent.h"
#include "apid/places.h"
#include "apid/tls.h"
#include "common/chan.h"
#include "common/child.h"
#include "common/confine.h"
#include "common/log.h"
#include "proto/parent.h"

#define FDS_KEPT 256
#define FDS_A_CONNECTION 3 /* itself, and both ends of a data socket */

static void
on_libevent_log(int severity, const char *text)
{
	static uint64_t lines;

	if (severity >= EVENT_LOG_WARN && lines++ < 100)
		log_warnx("libevent: %s", text);
}

static void
on_libevent_fatal(int status)
{
	fatalx("libevent: fatal error %d", status);
}

static void
end(void)
{
	event_base_loopbreak(apid.base);
}

static void
end_late(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	end();
}

/* Streams get their last line, waiting requests a 503; then we leave, after two seconds in any
 * case. */
static void
go_down(void)
{
	static const struct timeval patience = {1, 800000};
	static int going;

	if (going++)
		return;
	if (event_base_once(apid.base, -1, EV_TIMEOUT, end_late, NULL, &patience) == -1)
		fatalx("event_base_once");
	gate_going_down(end);
}

static void
on_term(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	(void)arg;
	go_down();
}

/* At SIGUSR1. */
static void
tell_state(void)
{
	log_info(
	    "state: %zu connections of %zu, %zu questions to managerd open, %zu messages queued",
	    gate_connections(), apid.conns_max, calls_open(), chan_queued(apid.managerd));
}

/* Libraries open files when they are first used: later there are none. */
static void
warm_up(void)
{
	uint8_t digest[32];

	sha256("", 0, digest);
	json_object_seed(arc4random() | 1);
	event_set_log_callback(on_libevent_log);
	event_set_fatal_callback(on_libevent_fatal);
}

/* Descriptors for as many connections as the configuration wants, or fewer connections. */
static void
set_bounds(void)
{
	int64_t wanted = apid.config->num[CFG_MAX_CONNECTIONS], most = wanted;
	struct rlimit fds;

	if (getrlimit(RLIMIT_NOFILE, &fds) == -1)
		fatal("getrlimit");
	if (fds.rlim_max < FDS_KEPT + FDS_A_CONNECTION * (rlim_t)most)
		most = ((int64_t)fds.rlim_max - FDS_KEPT) / FDS_A_CONNECTION;
	if (most < 1)
		fatalx("the limit of open files is %lld: too low", (long long)fds.rlim_max);
	if (most < wanted)
		log_warnx("the limit of open files is %lld: at most %lld connections",
		    (long long)fds.rlim_max, (long long)most);
	apid.conns_max = (size_t)most;
	apid.nofile = (uint32_t)(FDS_KEPT + FDS_A_CONNECTION * most);
	peer_trust_init(&apid.trust, apid.config->str[CFG_TRUSTED_PROXIES]);
	places_init((size_t)apid.config->num[CFG_MAX_CONNECTIONS_PER_ADDRESS], &apid.trust);
}

int
main(void)
{
	static struct child child;
	struct confine confine;
	struct event *term, *interrupt;

	child_setup(&child, "apid", 3);
	warm_up();
	if ((apid.base = event_base_new()) == NULL)
		fatalx("event_base_new");
	apid.config = &child.config;
	child.state = tell_state;
	apid.browser.hosts = child.config.str[CFG_ALLOWED_HOSTS];
	apid.browser.origins = child.config.str[CFG_CORS_ORIGINS];
	apid.browser.loopback = browser_is_loopback(child.config.str[CFG_HOST]);
	apid.metrics_browser = (struct browser_policy){1, apid.browser.hosts, ""};
	set_bounds();
	metrics_start();
	if ((term = evsignal_new(apid.base, SIGTERM, on_term, NULL)) == NULL ||
	    (interrupt = evsignal_new(apid.base, SIGINT, on_term, NULL)) == NULL ||
	    evsignal_add(term, NULL) == -1 || evsignal_add(interrupt, NULL) == -1)
		fatalx("evsignal");
	tls_init(apid.base);
	gate_init(apid.base, FD_SECOND);
	confine = confine_apid;
	confine.nofile = apid.nofile;
	child_confine(&child, &confine);
	managerd_init(apid.base, FD_PEER, go_down);
	keyd_init(apid.base, FD_THIRD, go_down);
	parent_init(&child, child.config.str[CFG_TLS_CERT][0] != '\0');
	event_base_dispatch(apid.base);
	return 0;
}
