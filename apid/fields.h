/*
 * The tables of the fields that JSON bodies may have: apid's parsers take their types and least
 * values from here, the description of the API (openapi/) all the rest.
 *
 * Rows: what stands for the field in the code, name, type (enum field_type), least value of an
 * INTEGER, default (a setting, NONE or REQUIRED), largest value (a setting that every server has,
 * or NONE), what it is, and what else a JSON Schema says of it, in the notation of openapi/loose.h.
 */
#ifndef APID_FIELDS_H
#define APID_FIELDS_H

#define WORKDIR_MAX 4079            /* bytes; with /workspace before it, a path of Linux */
#define SNAPSHOT_CHARACTERS_MAX 128 /* of a name */
#define RUN_CODE_MAX 100000         /* characters */
#define RUN_TIMEOUT_MAX 300
#define RUN_MEMORY_MAX 8192

#define FIELDS_TEXT_(x) #x
#define FIELDS_TEXT(x) FIELDS_TEXT_(x)

#define NOT_BLANK "'pattern': '^[^\\\\u0000]*[^\\\\u0000 \\\\t\\\\n\\\\r\\\\f\\\\v][^\\\\u0000]*$'"
#define NO_NUL "'pattern': '^[^\\\\u0000]*$'"
#define ENV_SCHEMA(example)                                                 \
	"'maxProperties': " FIELDS_TEXT(                                    \
	    ENV_MAX) ", 'propertyNames': {'pattern': '^[^=\\\\u0000]+$'}, " \
		     "'additionalProperties': {'type': 'string', " NO_NUL   \
		     "}, 'examples': [" example "]"

/* POST /v1/sandboxes */
#define CREATE_FIELDS(X)                                                                           \
	X(IMAGE, "image", STRING, 0, DEFAULT_IMAGE, NONE,                                          \
	    "Name of a Docker image that `AGENT_SANDBOX_ALLOWED_IMAGES` allows. One that is not "  \
	    "on the host is pulled, and the request waits for it.",                                \
	    "'minLength': 1, 'maxLength': " FIELDS_TEXT(IMAGE_MAX) ", 'examples': "                \
								   "['python:3.12-slim']")         \
	X(CPUS, "cpus", NUMBER, 0, DEFAULT_CPUS, MAX_CPUS,                                         \
	    "How many CPUs it may use; a fraction is allowed.", "'examples': [1.5]")               \
	X(MEMORY, "memory_mb", INTEGER, 16, DEFAULT_MEMORY_MB, MAX_MEMORY_MB,                      \
	    "Memory in MiB, without swap. `/tmp` and `/dev/shm` count as memory.",                 \
	    "'examples': [512]")                                                                   \
	X(PIDS, "pids_limit", INTEGER, 8, DEFAULT_PIDS_LIMIT, MAX_PIDS_LIMIT,                      \
	    "How many processes and threads there may be at once.", "'examples': [256]")           \
	X(NETWORK, "network", BOOL, 0, NONE, NONE, "Whether there is a way out to the network.",   \
	    "'default': false, 'examples': [false]")                                               \
	X(READ_ONLY, "read_only_rootfs", BOOL, 0, NONE, NONE,                                      \
	    "Whether all but `/workspace` and `/tmp` is read-only.",                               \
	    "'default': true, 'examples': [true]")                                                 \
	X(TIMEOUT, "timeout_seconds", INTEGER, 1, DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS,    \
	    "Time to live in seconds, from when the sandbox is ready.", "'examples': [900]")       \
	X(ENV, "env", STRINGS, 0, NONE, NONE,                                                      \
	    "Environment of every command in the sandbox, in all at most 64 KiB. `HOME` is "       \
	    "`/workspace` unless given.",                                                          \
	    ENV_SCHEMA("{'LANG': 'C.UTF-8'}"))                                                     \
	X(LABELS, "labels", STRINGS, 0, NONE, NONE,                                                \
	    "Names and values of your own, to find sandboxes by. A name has up to 63 bytes, a "    \
	    "value up to 255.",                                                                    \
	    "'maxProperties': " FIELDS_TEXT(                                                       \
		LABELS_MAX) ", 'propertyNames': {'minLength': 1, "                                 \
			    "'maxLength': " FIELDS_TEXT(                                           \
				LABEL_NAME_MAX) "}, 'additionalProperties': {'type': "             \
						"'string', 'maxLength': " FIELDS_TEXT(             \
						    LABEL_VALUE_MAX) ", " NO_NUL "}, 'examples': " \
								     "[{'team': 'red'}]")          \
	X(EGRESS, "egress_allowlist", ANY, 0, NONE, NONE,                                          \
	    "The hosts that it may reach, and nothing else: `host`, `host:port`, `*.host`, an IP " \
	    "address or a CIDR; without a port, 80 and 443. An empty list: no way out. Not "       \
	    "given: the server's own list, if it has one.",                                        \
	    "'type': 'array', 'maxItems': " FIELDS_TEXT(                                           \
		EGRESS_ENTRIES_MAX) ", 'items': {'type': 'string'}, 'examples': "                  \
				    "[['api.example.com', '*.example.org:443']]")

/* POST /v1/sandboxes/{sandbox_id}/timeout */
#define TIMEOUT_FIELDS(X)                                                        \
	X(TIMEOUT, "timeout_seconds", INTEGER, 1, REQUIRED, MAX_TIMEOUT_SECONDS, \
	    "Time to live in seconds, from now.", "'examples': [3600]")

/* POST /v1/sandboxes/{sandbox_id}/exec and …/exec/stream */
#define EXEC_FIELDS(X)                                                                           \
	X(COMMAND, "command", ANY, 0, REQUIRED, NONE,                                            \
	    "A text that `/bin/sh -c` runs, or a list of a program and its arguments, which is " \
	    "run as it is. With `env`, at most 256 KiB; one argument less than 128 KiB.",        \
	    "'oneOf': [{'type': 'string', " NOT_BLANK "}, {'type': 'array', 'minItems': 1, "     \
	    "'prefixItems': [{'type': 'string', " NOT_BLANK                                      \
	    "}], 'items': {'type': 'string', " NO_NUL "}}], "                                    \
	    "'examples': ['echo hi; id -u', ['python3', '-c', 'print(6 * 7)']]")                 \
	X(ENV, "env", STRINGS, 0, NONE, NONE, "Environment, over the sandbox's own.",            \
	    ENV_SCHEMA("{'MODE': 'test'}"))                                                      \
	X(WORKDIR, "workdir", STRING, 0, NONE, NONE,                                             \
	    "Where the command starts: absolute, or relative to `/workspace`.",                  \
	    "'default': '/workspace', 'minLength': 1, 'maxLength': " FIELDS_TEXT(                \
		WORKDIR_MAX) ", " NO_NUL ", "                                                    \
			     "'examples': ['/workspace']")                                       \
	X(TIMEOUT, "timeout_seconds", NUMBER, 0, DEFAULT_EXEC_TIMEOUT_SECONDS,                   \
	    MAX_EXEC_TIMEOUT_SECONDS,                                                            \
	    "After so many seconds every process that the command has started is killed.",       \
	    "'examples': [60]")                                                                  \
	X(STDIN, "stdin", STRING, 0, NONE, NONE,                                                 \
	    "The command's standard input; empty when not given.", "'examples': ['hello']")

/* POST /v1/sandboxes/{sandbox_id}/snapshots */
#define SNAPSHOT_FIELDS(X)                                                                    \
	X(NAME, "name", STRING, 0, NONE, NONE, "A name for people; it need not be unique.",   \
	    "'maxLength': " FIELDS_TEXT(SNAPSHOT_CHARACTERS_MAX) ", " NO_NUL ", 'examples': " \
								 "['before the change']")

/* POST /v1/sandboxes/{sandbox_id}/rollback */
#define ROLLBACK_FIELDS(X)                                              \
	X(SNAPSHOT, "snapshot_id", STRING, 0, REQUIRED, NONE,           \
	    "The snapshot to go back to; it may be another sandbox's.", \
	    "'examples': ['snap_0d1e2f3a4b5c6d7e']")

/* POST /v1/snapshots/{snapshot_id}/fork */
#define FORK_FIELDS(X)                                                                          \
	X(TIMEOUT, "timeout_seconds", INTEGER, 1, DEFAULT_TIMEOUT_SECONDS, MAX_TIMEOUT_SECONDS, \
	    "Time to live in seconds, from when the sandbox is ready.", "'examples': [900]")    \
	X(NETWORK, "network", BOOL, 0, NONE, NONE,                                              \
	    "Whether there is a way out to the network. Not given: as in the sandbox of the "   \
	    "snapshot.",                                                                        \
	    "'examples': [false]")                                                              \
	X(CPUS, "cpus", NUMBER, 0, NONE, MAX_CPUS,                                              \
	    "How many CPUs it may use. Not given: as the sandbox of the snapshot.",             \
	    "'examples': [2]")                                                                  \
	X(MEMORY, "memory_mb", INTEGER, 16, NONE, MAX_MEMORY_MB,                                \
	    "Memory in MiB. Not given: as the sandbox of the snapshot.", "'examples': [1024]")

/* POST /v1/run. Other fields are not looked at, here and in limits. */
#define RUN_FIELDS(X)                                                                              \
	X(CODE, "code", STRING, 0, REQUIRED, NONE,                                                 \
	    "The program. It runs as `/workspace/main.py` or `main.js`, in `/workspace`.",         \
	    "'minLength': 1, 'maxLength': " FIELDS_TEXT(                                           \
		RUN_CODE_MAX) ", 'examples': ['print(6 * 7)']")                                    \
	X(LANGUAGE, "language", STRING, 0, NONE, NONE,                                             \
	    "`python`, or `javascript`, which is also called `node`; in lower or upper case.",     \
	    "'default': 'python', 'examples': ['python']")                                         \
	X(LIMITS, "limits", OBJECT, 0, NONE, NONE, "What it may use.",                             \
	    "'anyOf': [{'$ref': '#/components/schemas/RunLimits'}, {'type': 'null'}], "            \
	    "'examples': [{'timeout_seconds': 10, 'memory_mb': 128}]")                             \
	X(SNAPSHOT, "snapshot", BOOL, 0, NONE, NONE,                                               \
	    "Whether `/workspace` is kept as a snapshot, without the program itself.",             \
	    "'default': false, 'examples': [false]")                                               \
	X(FROM, "snapshot_id", STRING, 0, NONE, NONE,                                              \
	    "The snapshot whose tree is in `/workspace` at the start.",                            \
	    "'examples': ['snap_0d1e2f3a4b5c6d7e']")                                               \
	X(EGRESS, "egress_allowlist", ANY, 0, NONE, NONE,                                          \
	    "The hosts that it may reach, and nothing else: `host`, `host:port`, `*.host`, an IP " \
	    "address or a CIDR; without a port, 80 and 443. An empty list: no way out. Not "       \
	    "given: the server's own list, if it has one.",                                        \
	    "'type': 'array', 'maxItems': " FIELDS_TEXT(                                           \
		EGRESS_ENTRIES_MAX) ", 'items': {'type': 'string'}, 'examples': "                  \
				    "[['api.example.com', '*.example.org:443']]")

#define RUN_LIMITS_FIELDS(X)                                                                   \
	X(TIMEOUT, "timeout_seconds", INTEGER, 1, RUN_TIMEOUT_SECONDS, NONE,                   \
	    "Time limit in seconds. Past it, the answer is `408`.",                            \
	    "'maximum': " FIELDS_TEXT(RUN_TIMEOUT_MAX) ", 'examples': [10]")                   \
	X(MEMORY, "memory_mb", INTEGER, 16, NONE, NONE,                                        \
	    "Memory in MiB. Not given, or more than the server allows: `limits_applied` says " \
	    "what it was.",                                                                    \
	    "'maximum': " FIELDS_TEXT(RUN_MEMORY_MAX) ", 'examples': [128]")                   \
	X(OUTPUT, "max_output_bytes", INTEGER, 1024, RUN_OUTPUT_BYTES, NONE,                   \
	    "How many bytes of both outputs together are kept, at most the server's own "      \
	    "limit.",                                                                          \
	    "'examples': [65536]")

#define FIELD_X_NAME(id, name, type, min, def, max, doc, more) F_##id,
#define FIELD_X_ROW(id, name, type, min, def, max, doc, more) {name, FIELD_##type, min},

#endif
