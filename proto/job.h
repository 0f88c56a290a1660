/*
 * What is asked of a sandbox, as it travels apid -> managerd -> sessiond: the same structs on both
 * channels, so that managerd hands on what it has authorised and nothing else.
 */
#ifndef PROTO_JOB_H
#define PROTO_JOB_H

#include <stdint.h>

#define PATH_TAIL_MAX 8192 /* a path inside a sandbox; longer ones are refused by apid */
#define TEXT_MAX 4096      /* an error text for the client */

#define ARGS_MAX (256 * 1024)    /* bytes of argv + env strings with their NULs */
#define ARG_MAX_ONE (128 * 1024) /* one argument must be shorter */
#define EXECS_MAX 56             /* at once in one sandbox; then 429 */

struct m_job_exec {
	int64_t timeout_us;    /* > 0 */
	uint32_t args_len;     /* of the RECORD_ARGS record that comes first on the data socket */
	uint8_t keep;          /* the client's leaving does not end the command */
	uint8_t kill_others;   /* end every other process first */
	uint8_t stdin_follows; /* RECORD_STDIN*, RECORD_STDIN_END; else stdin is at its end */
	uint8_t streamed;      /* for the audit log */
	uint8_t args_sha256[32];
	uint8_t must_exist; /* a program that is not there is an error, and no exit 127 */
	uint8_t pad[7];
};

enum range_kind { RANGE_ALL, RANGE_FROM, RANGE_BETWEEN, RANGE_SUFFIX };

/* Files: READ, WRITE, LIST, ARCHIVE_GET, ARCHIVE_PUT, REMOVE; the path is the tail: absolute,
 * normalised, no NUL. */
struct m_job_file {
	int64_t
	    first;    /* FROM, BETWEEN: first byte; SUFFIX: how many at the end; REMOVE: mtime_ns */
	int64_t last; /* RANGE_BETWEEN: last byte, included */
	int64_t max;  /* bytes that may be sent or stored; more is 413 */
	int64_t size; /* WRITE: bytes that will come, -1 unknown; REMOVE: what it has */
	uint32_t mode;     /* WRITE: permission bits, 0-0777 */
	uint8_t range;     /* enum range_kind, READ only */
	uint8_t head_only; /* READ: the META record and no data */
	uint8_t pad[2];
};

/* How a job ended, for managerd's books and its audit log. */
struct m_job_end {
	uint32_t status;   /* as an HTTP status: 200, or what the client was told */
	int32_t exit_code; /* of an exec; -1: it did not come to one that is known */
	int64_t duration_us;
	int64_t bytes_in;
	int64_t bytes_out;
};

#endif
