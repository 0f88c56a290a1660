/* Why a connection did not come to be, or ended: the fixed texts that programs inside and the audit
 * log see. */
#ifndef EGRESSD_REASON_H
#define EGRESSD_REASON_H

#include <stdint.h>

#include "proto/dial.h"

/* Rows: name, verdict, text. %s is the address, then what kind of address it is. */
#define REASONS(X)                                                                         \
	X(NONE, DIAL_OK, "")                                                               \
	/* what was asked */                                                               \
	X(BAD_NAME, DIAL_REFUSED, "the name is not valid")                                 \
	X(FORBIDDEN, DIAL_REFUSED, "network is not allowed on this server")                \
	X(NOT_LISTED, DIAL_REFUSED, "not in the allowlist")                                \
	X(NOT_SERVER, DIAL_REFUSED, "not in the server's allowlist")                       \
	X(NOT_PUBLIC, DIAL_REFUSED, "%s is not public (%s)")                               \
	/* what the first bytes said */                                                    \
	X(NOT_HELLO, DIAL_REFUSED, "the first bytes are no TLS hello that can be read")    \
	X(OTHER_SNI, DIAL_REFUSED, "the TLS server name is not the name that was dialled") \
	X(NOT_HTTP, DIAL_REFUSED, "the first bytes are no HTTP request that can be read")  \
	X(OTHER_HOST, DIAL_REFUSED, "the Host header is not the name that was dialled")    \
	X(SLOW_START, DIAL_REFUSED, "the first request did not come whole in time")        \
	/* limits */                                                                       \
	X(TOO_MANY, DIAL_REFUSED, "too many connections")                                  \
	X(TOO_FAST, DIAL_REFUSED, "too many connections a second")                         \
	X(BYTES, DIAL_REFUSED, "byte limit reached")                                       \
	X(SERVER_FULL, DIAL_REFUSED, "too many connections of all sandboxes")              \
	/* names */                                                                        \
	X(NO_RESOLVER, DIAL_FAILED, "no name server is known")                             \
	X(NOT_FOUND, DIAL_FAILED, "name not found")                                        \
	X(SILENT, DIAL_FAILED, "the resolver did not answer")                              \
	X(NO_ANSWER, DIAL_FAILED, "the resolver has no answer")                            \
	/* the other end */                                                                \
	X(CONN_REFUSED, DIAL_FAILED, "connection refused")                                 \
	X(UNREACHABLE, DIAL_FAILED, "no route to the host")                                \
	X(TIMED_OUT, DIAL_FAILED, "timed out")                                             \
	X(NO_CONNECT, DIAL_FAILED, "could not connect")                                    \
	X(RESET, DIAL_FAILED, "connection reset")                                          \
	X(IDLE, DIAL_FAILED, "idle for too long")                                          \
	X(LONG, DIAL_FAILED, "open for too long")                                          \
	/* this end */                                                                     \
	X(GONE, DIAL_FAILED, "the client inside has gone")                                 \
	X(FORGOTTEN, DIAL_FAILED, "the sandbox is gone")                                   \
	X(NO_MEMORY, DIAL_FAILED, "out of memory")

#define REASON_X_ENUM(name, verdict, text) REASON_##name,
enum reason { REASONS(REASON_X_ENUM) REASON_COUNT };

enum dial_verdict reason_verdict(enum reason);
/* address and kind are for NOT_PUBLIC; "" elsewhere. Returns the text's length. */
int reason_text(enum reason, const char *address, const char *kind, char out[DIAL_TEXT_MAX]);

#endif
