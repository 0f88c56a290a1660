/* TLS in the gate (gate_tls.h). An end of the client's side without its close_notify is an error,
 * never the end of a body. */
#include "apid/gate_tls.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <openssl/err.h>

#include "apid/gate_listen.h"
#include "apid/metrics.h"
#include "apid/tls.h"
#include "common/log.h"

#define RECORD_MAX 16384

struct bufferevent *
gate_tls_new(struct event_base *base, struct conn *c)
{
	c->ssl = tls_new();
	return bufferevent_openssl_socket_new(
	    base, -1, c->ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
}

static void
log_failure(struct conn *c)
{
	unsigned long code, last = 0;
	const char *why;

	while ((code = bufferevent_get_openssl_error(c->bev)) != 0) {
		if (ERR_GET_LIB(code) != ERR_LIB_NONE)
			last = code;
	}
	/* Who only looks whether the port is open says nothing, and is not worth a line. */
	if (last == 0 || ERR_GET_REASON(last) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return;
	why = ERR_reason_error_string(last);
	gate_log_handshake(c->peer.text, why != NULL ? why : "the connection broke");
}

static void
handshake_over(struct conn *c)
{
	c->handshaken = 1;
	metrics_count(COUNT_HANDSHAKES, 1);
	c->since = gate_tick();
	if (!tls_peer_is_current(c->ssl)) {
		gate_log_handshake(c->peer.text, "the client's certificate has expired");
		gate_doom(c);
	}
}

void
gate_tls_event(struct conn *c, short what)
{
	if (what & BEV_EVENT_CONNECTED) {
		handshake_over(c);
		return;
	}
	if ((what & (BEV_EVENT_EOF | BEV_EVENT_READING)) == (BEV_EVENT_EOF | BEV_EVENT_READING)) {
		c->eof = 1;
		bufferevent_disable(c->bev, EV_READ);
		gate_kick(c);
		return;
	}
	if (!c->handshaken) {
		metrics_count(COUNT_HANDSHAKES_FAILED, 1);
		log_failure(c);
	}
	c->broken = 1;
	gate_doom(c);
}

void
gate_tls_gather(struct conn *c)
{
	struct evbuffer *out = bufferevent_get_output(c->bev);
	size_t n = evbuffer_get_length(out);

	if (n > RECORD_MAX)
		n = RECORD_MAX;
	if (n > 0 && evbuffer_get_contiguous_space(out) < n &&
	    evbuffer_pullup(out, (ev_ssize_t)n) == NULL)
		fatal("evbuffer_pullup");
}

int
gate_tls_close(struct conn *c)
{
	int result;

	if (c->broken || !c->handshaken || (SSL_get_shutdown(c->ssl) & SSL_SENT_SHUTDOWN))
		return 0;
	ERR_clear_error();
	result = SSL_shutdown(c->ssl);
	return result < 0 && SSL_get_error(c->ssl, result) == SSL_ERROR_WANT_WRITE ? -1 : 0;
}
