/* What the keys of a tenant may use together, beside the limits of the server. */
#ifndef MANAGERD_QUOTA_H
#define MANAGERD_QUOTA_H

#include <stdint.h>

struct request;
struct spec;
struct tenant;

/* Each returns 0, or -1 when there is no room and the request is answered. */
/* For one more sandbox like that. */
int quota_sandbox(struct request *, const struct spec *);
/* For one more command at once. */
int quota_exec(struct request *);
/* For a snapshot of so many bytes on the disk; of 0: whether one may be begun. */
int quota_snapshot(struct request *, const struct tenant *, int64_t bytes);
/* How many more bytes its snapshots may take, at least 1; 0: any. */
int64_t quota_snapshot_left(const struct tenant *);
/* For one more request in this second: 0, or microseconds until there is. */
int64_t quota_request(struct tenant *, int64_t now_us);

/* Whether it may soon be refused one more for want of those that are being removed. */
int quota_crowded(const struct tenant *);

#endif
