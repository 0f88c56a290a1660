/* What a client of the proxies says before its connection is there, and what it is told. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "sandbox-init/dial.h"
#include "sandbox-init/proxy_http.h"
#include "sandbox-init/proxy_socks.h"

#define READ_STEP 4096

static void
answer(struct dial *d, int status, const char *before, const char *text, size_t len)
{
	char out[HTTP_ANSWER_MAX];

	dial_put(d, out, http_answer(out, status, before, text, len));
	dial_tell(d);
}

static void
http_fails(struct dial *d, int status, const char *why)
{
	answer(d, status, "", why, strlen(why));
}

static void
socks_tell(struct dial *d, enum socks_reply reply)
{
	uint8_t out[SOCKS_REPLY_LEN];

	socks_answer(out, reply);
	dial_put(d, out, sizeof(out));
	if (reply != SOCKS_OK)
		dial_tell(d);
}

/* In the place of the head stands now what the host is to get. */
static void
http_take(struct dial *d, size_t head)
{
	size_t rest = d->in.end - d->in.start - head, len;
	struct mem_queue made = {.cap = HTTP_HEAD_ROOM(head) + rest};
	struct ask a;
	const char *why;

	made.p = mem_new(made.cap);
	why = http_request(d->in.p + d->in.start, head, &a, made.p, &len);
	memcpy(made.p + len, d->in.p + d->in.start + head, rest);
	made.end = len + rest;
	mem_queue_free(&d->in);
	d->in = made;
	if (why != NULL)
		http_fails(d, 400, why);
	else
		dial_ask(d, &a);
}

static void
http_read(struct dial *d)
{
	size_t n = d->in.end - d->in.start;
	size_t head = http_head_end(d->in.p + d->in.start, n);

	if (head > HTTP_HEAD_MAX || (head == 0 && n > HTTP_HEAD_MAX))
		http_fails(d, 431, "the head of the request is too long");
	else if (head > 0)
		http_take(d, head);
}

static void
socks_read(struct dial *d)
{
	static const uint8_t welcome[] = {5, 0}, sorry[] = {5, 0xff};
	enum socks_reply reply = SOCKS_OK;
	struct ask a;
	ssize_t used;
	int fits = 0;

	if (!d->greeted) {
		used = socks_greeting(d->in.p + d->in.start, d->in.end - d->in.start, &fits);
		if (used < 0) {
			dial_abort(d);
			return;
		}
		if (used == 0)
			return;
		d->in.start += (size_t)used;
		d->greeted = 1;
		dial_put(d, fits ? welcome : sorry, sizeof(welcome));
		if (!fits) {
			dial_tell(d);
			return;
		}
	}
	used = socks_request(d->in.p + d->in.start, d->in.end - d->in.start, &a, &reply);
	if (used < 0) {
		dial_abort(d);
	} else if (used > 0) {
		d->in.start += (size_t)used;
		if (reply == SOCKS_OK)
			dial_ask(d, &a);
		else
			socks_tell(d, reply);
	}
}

void
front_read(struct dial *d)
{
	ssize_t n = recv(d->fd, mem_queue_reserve(&d->in, READ_STEP), READ_STEP, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		dial_abort(d);
		return;
	}
	d->in.end += (size_t)n;
	if (d->front == FRONT_HTTP)
		http_read(d);
	else
		socks_read(d);
}

static int
verdict_http(struct dial *d, uint32_t verdict, const char *text, size_t len)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";

	if (verdict == DIAL_REFUSED)
		answer(d, 403, "egress refused: ", text, len);
	else if (verdict != DIAL_OK)
		answer(d, 502, "egress failed: ", text, len);
	else if (d->how == DIAL_CONNECT)
		dial_put(d, established, sizeof(established) - 1);
	return verdict == DIAL_OK;
}

static int
verdict_socks(struct dial *d, uint32_t verdict, const char *text, size_t len)
{
	static const char refused[] = "connection refused";
	enum socks_reply reply = SOCKS_HOST_UNREACHABLE;

	if (verdict == DIAL_OK)
		reply = SOCKS_OK;
	else if (verdict == DIAL_REFUSED)
		reply = SOCKS_NOT_ALLOWED;
	else if (len == sizeof(refused) - 1 && memcmp(text, refused, len) == 0)
		reply = SOCKS_CONNECTION_REFUSED;
	socks_tell(d, reply);
	return verdict == DIAL_OK;
}

int
front_verdict(struct dial *d, uint32_t verdict, const char *text, size_t len)
{
	if (d->front == FRONT_HTTP)
		return verdict_http(d, verdict, text, len);
	if (d->front == FRONT_SOCKS)
		return verdict_socks(d, verdict, text, len);
	if (verdict != DIAL_OK)
		dial_abort(d);
	return verdict == DIAL_OK;
}

void
front_late(struct dial *d)
{
	if (d->front == FRONT_HTTP)
		http_fails(d, 408, "the request did not arrive in time");
	else
		dial_abort(d);
}
