/*
 * Data sockets: a SOCK_STREAM pair per exec or transfer, one end held by apid, the other by
 * sessiond (or, for CREATE, by managerd). Records as common/record.h frames them. The last record
 * says how it ended; end of file without it is a failure. A side that closes early has gone:
 * sessiond then ends the command (unless keep is set) or drops the transfer.
 *
 * - EXEC. apid: ARGS, then STDIN* STDIN_END if stdin_follows.
 *   sessiond: STARTED, (STDOUT|STDERR)*, EXIT.
 * - FILE_READ. sessiond: META, DATA*, DONE.
 * - FILE_WRITE. apid: DATA*, DONE. sessiond: META, DONE.
 * - FILE_LIST. sessiond: ENTRY*, DONE.
 * - FILE_REMOVE. sessiond: DONE.
 * - ARCHIVE_GET. sessiond: STARTED, DATA*, DONE.
 * - ARCHIVE_PUT. apid: DATA*, DONE. sessiond: DONE.
 * - CREATE. apid: ENV*, LABEL*, EGRESS*, DONE. managerd: nothing.
 *
 * Instead of any record, sessiond may send ERROR, which is then the last.
 */
#ifndef PROTO_DATA_H
#define PROTO_DATA_H

#include <stdint.h>

#define RECORD_MAX 65536                  /* data bytes of every record but ARGS */
#define RECORD_ARGS_MAX (ARGS_MAX + 8192) /* of ARGS */

enum record_type {
	RECORD_ARGS = 1,  /* struct r_args, then argv strings, env strings ("NAME=value"), the
			     workdir: each with a NUL */
	RECORD_STDIN,     /* bytes */
	RECORD_STDIN_END, /* nothing */
	RECORD_DATA,      /* bytes */
	RECORD_DONE,      /* struct r_done */
	RECORD_ENV,       /* "NAME=value", no NUL */
	RECORD_LABEL,     /* "name\0value", no NUL at the end */
	RECORD_EGRESS,    /* an entry of an egress allowlist, as the client wrote it; no NUL */

	RECORD_STARTED =
	    64, /* nothing: accepted; from now on a failure can no longer be an HTTP status */
	RECORD_STDOUT, /* bytes */
	RECORD_STDERR, /* bytes */
	RECORD_EXIT,   /* struct r_exit */
	RECORD_META,   /* struct r_meta */
	RECORD_ENTRY,  /* struct r_entry, then the name */
	RECORD_ERROR,  /* struct r_error, then the text for the client */
};

/* All integers little-endian, structs as they lie in memory (both ends are the same machine). */
struct r_args {
	uint32_t argc; /* >= 1 */
	uint32_t envc;
};

struct r_done {
	int64_t bytes; /* of all DATA records; the receiver compares */
};

struct r_exit {
	int32_t exit_code; /* 0-255: the command's own, or 128 + signal */
	uint8_t timed_out;
	uint8_t oom_killed;
	uint8_t signal; /* 0: none */
	uint8_t pad;
	int64_t duration_us;
	int64_t cpu_us;
	int64_t peak_memory_bytes; /* -1 unknown */
};

enum file_type { FILE_REGULAR, FILE_DIRECTORY, FILE_SYMLINK, FILE_OTHER };

/* Of the whole file, and of the part that is sent. */
struct r_meta {
	int64_t size;
	int64_t mtime_ns;
	int64_t first;  /* first byte sent */
	int64_t length; /* bytes sent */
	uint32_t mode;
	uint8_t type; /* enum file_type */
	uint8_t pad[3];
};

struct r_entry {
	int64_t size;
	int64_t mtime_ns;
	uint32_t mode;
	uint8_t type; /* enum file_type */
	uint8_t pad[3];
};

struct r_error {
	uint32_t status; /* an HTTP status of API.md's table, or 416 */
	uint32_t retry_after;
	int64_t size; /* 416: of the file; else 0 */
};

#endif
