/*
 * The table of statuses: what apid says on the wire, and what the description of the API (openapi/)
 * and docs/API.md say about them. Rows: status, reason phrase, code of the error ("" is none), what
 * it means, an example of a message.
 */
#ifndef APID_STATUSES_H
#define APID_STATUSES_H

#define STATUS_TABLE(X)                                                                            \
	X(200, "OK", "", "", "")                                                                   \
	X(201, "Created", "", "", "")                                                              \
	X(204, "No Content", "", "", "")                                                           \
	X(206, "Partial Content", "", "", "")                                                      \
	X(304, "Not Modified", "", "", "")                                                         \
	X(400, "Bad Request", "invalid_request",                                                   \
	    "a value that cannot be: a path outside, an unknown image, an empty command, not a "   \
	    "regular file",                                                                        \
	    "path: only files under /workspace can be written")                                    \
	X(401, "Unauthorized", "unauthorized",                                                     \
	    "no key, a wrong one, or two; comes with `WWW-Authenticate: Bearer`",                  \
	    "a valid API key is required")                                                         \
	X(403, "Forbidden", "forbidden",                                                           \
	    "the image or the network is not allowed here, or a browser asked for another site, "  \
	    "or the key lacks the scope",                                                          \
	    "image alpine:3 is not allowed on this server")                                        \
	X(404, "Not Found", "not_found", "no such sandbox, snapshot, file or path",                \
	    "sandbox sb_0123456789abcdef not found")                                               \
	X(405, "Method Not Allowed", "method_not_allowed", "see `Allow`",                          \
	    "this path knows GET, HEAD, OPTIONS")                                                  \
	X(408, "Request Timeout", "timeout", "only of a run: the code ran past its time limit",    \
	    "Execution timed out")                                                                 \
	X(409, "Conflict", "conflict",                                                             \
	    "the sandbox is busy, ended meanwhile, or an idempotency key was used for something "  \
	    "else",                                                                                \
	    "sandbox sb_0123456789abcdef is rolling back")                                         \
	X(410, "Gone", "gone",                                                                     \
	    "only with `?detail=true`: this sandbox ended in the last hour; the message says why", \
	    "sandbox sb_0123456789abcdef is gone (ttl)")                                           \
	X(413, "Content Too Large", "payload_too_large",                                           \
	    "a body, file, command or snapshot over its limit",                                    \
	    "the JSON body is larger than 1 MiB")                                                  \
	X(414, "URI Too Long", "uri_too_long", "the request line is over 8 KiB",                   \
	    "the request target is longer than 8 KiB")                                             \
	X(415, "Unsupported Media Type", "unsupported_media_type",                                 \
	    "a JSON body with another type",                                                       \
	    "the Content-Type of a JSON body is application/json")                                 \
	X(416, "Range Not Satisfiable", "range_not_satisfiable",                                   \
	    "a `Range` behind the end of the file",                                                \
	    "/workspace/a.txt: range lies outside the file")                                       \
	X(417, "Expectation Failed", "expectation_failed",                                         \
	    "an `Expect` other than `100-continue`; the connection is closed",                     \
	    "the only expectation known here is 100-continue")                                     \
	X(422, "Unprocessable Content", "validation_error",                                        \
	    "not JSON, a wrong type, an unknown field, a malformed parameter; the message names "  \
	    "the field",                                                                           \
	    "memory_mb: must be an integer >= 16")                                                 \
	X(429, "Too Many Requests", "limit_exceeded",                                              \
	    "too many sandboxes, snapshots, commands or processes, a quota of the tenant or too "  \
	    "long a wait for it, too "                                                             \
	    "many "                                                                                \
	    "requests a second, or too many with keys that are none; with `Retry-After`",          \
	    "the limit of 20 sandboxes is reached; delete one or try again later")                 \
	X(431, "Request Header Fields Too Large", "headers_too_large",                             \
	    "the request head is over 16 KiB, or has more than 64 fields",                         \
	    "the request head is larger than 16 KiB")                                              \
	X(500, "Internal Server Error", "internal_error",                                          \
	    "a mistake of the server; the log knows it by the request id", "internal error")       \
	X(501, "Not Implemented", "not_implemented",                                               \
	    "a method or transfer coding that is not spoken here; the connection is closed",       \
	    "this method is not implemented")                                                      \
	X(502, "Bad Gateway", "backend_error", "the engine failed, or does not answer",            \
	    "the engine does not answer")                                                          \
	X(503, "Service Unavailable", "unavailable",                                               \
	    "starting, ending or overloaded; with `Retry-After`",                                  \
	    "the server is overloaded, try again")                                                 \
	X(505, "HTTP Version Not Supported", "http_version_not_supported",                         \
	    "neither HTTP/1.1 nor HTTP/1.0; the connection is closed",                             \
	    "only HTTP/1.0 and HTTP/1.1 are spoken here")                                          \
	X(507, "Insufficient Storage", "insufficient_storage", "the disk is full",                 \
	    "the disk that holds the sandbox's workspace is almost full")

#endif
