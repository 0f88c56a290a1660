/*
 * The guest protocol: sessiond <-> sandbox-init (PID 1 of a sandbox), one byte stream, frames of
 * common/frame.h. sessiond takes every frame from inside as hostile; sandbox-init trusts the
 * outside but survives garbage, since a lost attachment may leave half a frame in its input.
 *
 * Attachment. sessiond writes GUEST_PADDING zero bytes, then HELLO(nonce) on channel 0.
 * sandbox-init, on HELLO: ends the commands of the attachment before (their background jobs live
 * on), continues what it had stopped, closes all channels, drops queued output, resets windows,
 * answers HELLO_ACK with the same nonce. sessiond discards everything up to that frame. A frame
 * with a wrong magic, length or checksum is skipped byte by byte inside; outside, after HELLO_ACK,
 * it ends the session.
 *
 * Channels 1 … GUEST_CHANNELS belong to sessiond: a request frame (EXEC_ARGS or EXEC, READ, WRITE,
 * LIST, EXPORT, IMPORT, REMOVE) opens one, the final frame from inside (EXIT or END; exactly one,
 * nothing after it) closes it; only then may the number be used again. CLOSE asks for an early end:
 * the command is killed, the transfer undone; END or EXIT still follows. Frames of sessiond that
 * cross that final frame are ignored inside.
 *
 * Windows. Each channel has GUEST_WINDOW bytes of credit in each direction when it is opened; data
 * of STDIN and DATA (inwards), STDOUT, STDERR, DATA and ENTRY (outwards, whole payload) uses it up;
 * WINDOW gives it back. More than the credit is a breach. All other frames need none. Nothing a
 * channel does delays another.
 *
 * Order inside: requests are served concurrently, frames of one channel in order. Texts in END are
 * fit for the client.
 *
 * A way out. EGRESS says that there is one, and may come again: from then until the next HELLO
 * sandbox-init listens on loopback and opens channels GUEST_CHANNELS + 1 … GUEST_CHANNELS +
 * GUEST_DIALS, one per connection. Each has GUEST_DIAL_WINDOW bytes of credit in each direction for
 * DATA, given back by WINDOW; more is a breach. WINDOW may give more than was used up, as long as
 * the credit stays within GUEST_DIAL_WINDOW_MAX: a receiver who can hand on at once lets more be
 * under way. The life of such a channel:
 * - DIAL (from inside) opens it.
 * - DIALED (from outside; exactly once, and its first frame there) is the verdict. Only if that is
 *   DIAL_OK do DATA, DATA_END and WINDOW follow, each direction for itself; else CLOSE.
 * - DATA_END (empty; once from each side) ends one direction: a half close. WINDOW may still come.
 * - CLOSE (once from each side, and its last frame there): both directions have ended and all bytes
 *   that came are handed on; or earlier, at any time after DIAL and DIALED, to abort. Who gets it
 *   without DATA_END before it throws away what is not yet handed on and resets its side of the
 *   connection; who gets it after DATA_END hands on what it has. Both then send CLOSE.
 * - What crosses the own CLOSE is thrown away.
 * - When CLOSE went both ways the channel is closed, and DIAL may use the number again.
 * - HELLO closes all of them at once, without a word.
 */
#ifndef PROTO_GUEST_H
#define PROTO_GUEST_H

#include <stdint.h>

#ifndef GUEST_VERSION /* tests build with another one */
#define GUEST_VERSION 2
#endif
#define GUEST_CHANNELS 64
#define GUEST_WINDOW (256 * 1024)
#define GUEST_DIALS 256 /* connections out at once; further ones wait for their turn */
#define GUEST_DIAL_WINDOW 65536
#define GUEST_DIAL_WINDOW_MAX (4 * GUEST_DIAL_WINDOW)
#define GUEST_PADDING (65536 + 16)
#define GUEST_TEXT_MAX 4096
/* sandbox-init's exit status when the image's own /workspace holds something that is not the
 * sandbox user's. */
#define GUEST_EXIT_WORKSPACE 78

enum guest_type {
	/* sessiond -> sandbox-init */
	G_HELLO = 1, /* struct g_hello; channel 0 */
	G_KILL_ALL,  /* channel 0: SIGKILL to everything but PID 1 */
	G_EXEC_ARGS, /* a piece of the argument block, in order */
	G_EXEC,      /* struct g_exec: the block is complete, run it */
	G_STDIN,     /* bytes */
	G_STDIN_END,
	G_SIGNAL, /* struct g_number: to the command's process group */
	G_KILL,   /* end the command and all its descendants, as a timeout does; EXIT follows */
	G_READ,   /* struct g_file, path */
	G_WRITE,  /* struct g_file, path; then DATA*, DATA_END */
	G_LIST,   /* struct g_file, path */
	G_EXPORT, /* struct g_file, path: a pax tar; G_FLAG_FREEZE for snapshots */
	G_IMPORT, /* struct g_file, path; then DATA*, DATA_END: a tar; G_FLAG_RESTORE */
	G_CLOSE,  /* a DIAL channel: both ways */
	G_EGRESS, /* channel 0: the list (proto/dial.h), or "*": any public address */
	G_DIALED, /* struct g_dialed, text of at most DIAL_TEXT_MAX bytes */
	G_REMOVE, /* struct g_file, path: a regular file whose mtime (first) and size are these */

	/* both ways */
	G_DATA = 32, /* bytes */
	G_DATA_END, /* struct g_size: all bytes were sent. Outwards END says it instead. DIAL: empty
		     */
	G_WINDOW,   /* struct g_number: bytes of credit given */

	/* sandbox-init -> sessiond */
	G_HELLO_ACK = 64, /* struct g_hello; channel 0 */
	G_STAT,           /* struct g_stat; channel 0, once a second */
	G_STARTED,        /* the command runs; IMPORT, WRITE: ready for data; EXPORT: data follow */
	G_STDOUT,
	G_STDERR,
	G_EXIT,  /* struct g_exit; final */
	G_META,  /* struct g_meta: READ before its data; WRITE before END, the file as it is now */
	G_ENTRY, /* one or more of: struct g_entry, name (name_len bytes), each padded with zeros to
		    8 bytes */
	G_END,   /* struct g_end, text; final */
	G_DIAL,  /* struct g_dial, then the name: 1 … DIAL_NAME_MAX bytes of any value */
	G_LISTENS, /* struct g_listens, text: the answer to EGRESS; channel 0 */
};

/* Integers little-endian, structs packed by hand to multiples of 8. */
/* HELLO and HELLO_ACK are the same in all versions. */
struct g_hello {
	uint64_t nonce;
	uint32_t version;
	uint32_t pad;
};

struct g_number {
	uint32_t n;
	uint32_t pad;
};

struct g_size {
	int64_t bytes;
};

/*
 * The argument block is {u32 argc, u32 envc}, argc strings, envc strings "NAME=value", the working
 * directory, each with its NUL. At most GUEST_ARGS_MAX bytes. argv[0] without a slash is looked for
 * in PATH of the given environment, or GUEST_PATH. The environment is used as given; sessiond has
 * merged the sandbox's own and HOME, PATH.
 */
#define GUEST_ARGS_MAX (400 * 1024)
#define GUEST_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct g_exec {
	int64_t timeout_us; /* > 0; the clock stands still while the sandbox is frozen */
	uint32_t args_len;  /* of the whole block; another length is END 400 */
	uint8_t stdin_open; /* STDIN frames follow; else /dev/null */
	uint8_t kill_others;
	uint8_t must_exist; /* a program that is not there is END 400 */
	uint8_t pad;
};

#define G_FLAG_FREEZE \
	1 /* EXPORT: stop all other processes meanwhile; 409 if they will not stand still */
#define G_FLAG_RESTORE 2 /* IMPORT: exactly this is in the folder then; else merge when whole */
#define G_FLAG_HEAD 4    /* READ: META and END, no data */
#define G_FLAG_WORKSPACE \
	8 /* the path and all links on it must stay under /workspace, else END 400 */
#define G_FLAG_PARENTS 16 /* WRITE, IMPORT: make missing parent folders (0755) */

struct g_file {
	int64_t first; /* READ, REMOVE: as struct m_job_file */
	int64_t last;
	int64_t max;  /* more bytes than this: END 413. READ: of the part asked for. -1: no limit */
	int64_t size; /* WRITE, REMOVE: as struct m_job_file */
	uint32_t mode;
	uint8_t range; /* enum range_kind (proto/job.h) */
	uint8_t flags; /* G_FLAG_… */
	uint16_t path_len;
};

struct g_stat {
	int64_t free_bytes; /* for the sandbox user, where /workspace lies */
	int64_t free_inodes;
};

struct g_exit {
	int32_t exit_code; /* 0-255; 128 + signal */
	uint8_t timed_out;
	uint8_t oom_killed; /* the cgroup's oom_kill count rose while it ran */
	uint8_t signal;
	uint8_t pad;
	int64_t duration_us;
	int64_t cpu_us;
	int64_t peak_memory_bytes; /* largest resident set of a process; -1 unknown */
};

struct g_meta {
	int64_t size;
	int64_t mtime_ns;
	int64_t first; /* READ: first byte that follows */
	int64_t length;
	uint32_t mode;
	uint8_t type; /* enum file_type (proto/data.h) */
	uint8_t pad[3];
};

struct g_entry {
	int64_t size;
	int64_t mtime_ns;
	uint32_t mode;
	uint8_t type;
	uint8_t pad;
	uint16_t name_len;
};

struct g_end {
	uint32_t status; /* 200, or the HTTP status that this failure is: 400 404 409 413 416 429
			    500 507 */
	uint32_t pad;
	int64_t bytes; /* data bytes sent or taken; 416: the file's size */
};

struct g_dial {
	uint16_t port; /* not 0 */
	uint8_t how;   /* enum dial_how */
	uint8_t pad[5];
};

/* The text says what is wrong with the first listener that could not be had. */
struct g_listens {
	uint32_t listeners;
	uint32_t failed;
};

struct g_dialed {
	uint32_t verdict; /* enum dial_verdict */
	uint32_t pad;
};

#endif
