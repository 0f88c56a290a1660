/* What the keys of a tenant may use together, beside the limits of the server. */
#ifndef MANAGERD_QUOTA_H
#define MANAGERD_QUOTA_H

#include <stdint.h>

struct request;
struct snap;
struct spec;
struct tenant;

/* Each returns 0, or -1 when there is no room and the request is answered. */
/* For one more sandbox like that. */
int quota_sandbox(struct request *, const struct spec *);
/* For one more command at once. */
int quota_exec(struct request *);
/* For this snapshot, with its record; without stored bytes: whether it may be begun. */
int quota_snapshot(struct request *, const struct snap *);
/* Whether the next snapshot has to wait: one that is being made may take what it would need. */
int quota_snapshot_waits(const struct tenant *);
/* For one that may be begun: as much as it can need, of what is left. How many bytes its file may
 * take beside its record; 0: any. */
int64_t quota_snapshot_reserve(struct snap *);
/* It is made, or was given up. */
void quota_snapshot_release(struct snap *);
/* For one more request in this second: 0, or microseconds until there is. */
int64_t quota_request(struct tenant *, int64_t now_us);

/* Whether it may soon be refused one more for want of those that are being removed. */
int quota_crowded(const struct tenant *);

#endif
