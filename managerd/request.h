/* One request of a client, from its authorisation to its one answer and its line in the audit log.
 */
#ifndef MANAGERD_REQUEST_H
#define MANAGERD_REQUEST_H

#include "common/ids.h"
#include "proto/apid_managerd.h"

struct box;
struct key;
struct snap;
struct tenant;

struct request {
	uint64_t id; /* of apid's message; 0: nobody waits */
	struct tenant *tenant;
	uint32_t key;  /* its serial */
	uint8_t scope; /* that it needs; enum keys_scope */
	uint8_t admin; /* sees every tenant */
	uint8_t addr[16];
	char key_name[64]; /* for the audit log; "": nobody needs a key */
	uint8_t detail;
	uint8_t has_args; /* an exec */
	uint32_t args_len;
	uint8_t args_sha256[32];
	const char *action; /* for the audit log; NULL: a read, which has no line */
	char target[ID_TEXT_MAX];
	char peer[56];
	char request_id[72];
	int64_t began_us; /* CLOCK_BOOTTIME */
};

/* From what apid sent; ask was checked. */
void request_begin(struct request *, uint64_t id, const struct m_ask *, const struct key *,
    uint8_t scope, const char *action);
/* apid's message with this id is handled now, for the first time; 0: none is any more. What is
 * refused meanwhile was so before anything was begun. */
void request_turn(uint64_t id);
/* Whether what belongs to this tenant exists for who asks. */
int request_may_see(const struct request *, const struct tenant *);
void request_target(struct request *, const char *prefix, uint64_t id);

/* Each of these is the final answer, and writes the audit line. */
void request_reply(struct request *, uint32_t status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void request_retry(struct request *, uint32_t status, uint32_t retry_after, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void request_sandbox(struct request *, const struct box *);
void request_snapshot(struct request *, const struct snap *);
/* The snapshot, if there is one for who asks. */
struct snap *snap_seen(const struct request *, uint64_t id);
/* 404, or 410 for who asks for detail and the sandbox ended not long ago. */
void request_no_sandbox(struct request *, uint64_t id);
void request_no_snapshot(struct request *, uint64_t id);
/* 507 or 502 for a record that could not be written (errno). */
void request_disk(struct request *);
/* A job was handed on: REPLY 200 now, the audit line when it has ended. */
void request_accepted(struct request *);
void request_ended(struct request *, uint32_t status, const int32_t *exit_code);

/* Items of a page. */
/* Both return how many bytes the tail had. */
size_t send_sandbox(const struct request *, const struct box *);
size_t send_snapshot(const struct request *, const struct snap *);

#endif
