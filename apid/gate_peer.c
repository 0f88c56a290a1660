/* Who may connect, and who is behind a connection (gate_listen.h). */
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <sys/socket.h>

#include "apid/apid.h"
#include "apid/gate_listen.h"
#include "apid/places.h"
#include "apid/proxy_header.h"
#include "common/log.h"

#define NEWS_SECONDS 10 /* between two lines about connections that were cut */

static uint64_t cut;
static uint32_t news_since;
static struct peer_addr last_cut;

static void
tell(void)
{
	log_warnx("%s has its %lld connections (AGENT_SANDBOX_MAX_CONNECTIONS_PER_ADDRESS); "
		  "cut %llu in %u s",
	    last_cut.text, (long long)apid.config->num[CFG_MAX_CONNECTIONS_PER_ADDRESS],
	    (unsigned long long)cut, NEWS_SECONDS);
}

int
gate_peer_tick(void)
{
	if (cut == 0)
		return 0;
	if (gate_tick() - news_since < NEWS_SECONDS)
		return 1;
	tell();
	cut = 0;
	return 0;
}

/* The first one is told at once, then how many there were. */
static void
note_cut(const struct peer_addr *p)
{
	last_cut = *p;
	if (cut++ > 0)
		return;
	news_since = gate_tick();
	log_warnx("%s: connection cut, its address has %lld", p->text,
	    (long long)apid.config->num[CFG_MAX_CONNECTIONS_PER_ADDRESS]);
}

int
gate_set_peer(struct conn *c, const struct peer_addr *p)
{
	static const struct linger reset = {.l_onoff = 1};

	c->peer = *p;
	if (places_take(c) == 0)
		return 0;
	/* The cheapest end: the kernel keeps nothing of it. */
	setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	note_cut(p);
	return -1;
}

int
gate_admit(struct conn *c, const struct sockaddr *sa)
{
	struct peer_addr p;

	peer_set_sockaddr(&p, sa);
	c->proxied = !c->metrics && peer_is_trusted(&apid.trust, &p);
	return gate_set_peer(c, &p);
}

int
gate_proxy_header(struct conn *c)
{
	size_t n = evbuffer_get_length(c->raw), used;
	struct peer_addr p = c->peer;
	int r;

	if (n > PROXY_HEADER_MAX)
		n = PROXY_HEADER_MAX;
	r = proxy_header_parse(evbuffer_pullup(c->raw, (ev_ssize_t)n), n, &p, &used);
	if (r != 1)
		return r;
	c->proxied = 0;
	evbuffer_drain(c->raw, used);
	if (used > 0 && gate_set_peer(c, &p) == -1) {
		gate_doom(c);
		return 0;
	}
	return 1;
}
