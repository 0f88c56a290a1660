/*
 * An HTTP/1.1 client over one unix socket: libcurl's multi interface on a libevent loop. Follows
 * nothing, uses no proxy, resolves no name, starts no thread. Every answer has a bound, every call
 * a deadline.
 */
#ifndef COMMON_UHTTP_H
#define COMMON_UHTTP_H

#include <stddef.h>

struct event_base;

/*
 * status is 0 when no whole answer came (unreachable, too slow, too long, aborted). Never called
 * from within uhttp_call(). data is followed by a NUL that is not counted, and is gone afterwards.
 */
typedef void (*uhttp_done)(void *arg, int status, const char *data, size_t len);

struct uhttp_call {
	const char *method;
	const char *type; /* Content-Type, NULL for none */
	const void *body; /* must live until done() */
	size_t len;
	int seconds;       /* deadline; 0: none */
	int reset_is_fine; /* a whole 200 followed by a reset of the connection is a success */
	void (*line)(void *arg, const char *line, size_t len); /* else NULL; may make no call */
	uhttp_done done;
	void *arg;
};

/* Before the program is confined: libcurl loads what it needs. Answers are bounded by answer_max,
 * lines by a constant. */
void uhttp_init(struct event_base *, const char *socket_path, size_t answer_max);
void uhttp_call(const struct uhttp_call *, const char *path);
void uhttp_abort(void); /* all calls that were begun are done, with status 0 */
size_t uhttp_calls(void);
char *uhttp_escape(const char *text); /* for a query; free() it */

#endif
