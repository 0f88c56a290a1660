/* Records of sandboxes and snapshots as JSON text. Decoding is pure over the text of a file. */
#ifndef MANAGERD_RECORD_H
#define MANAGERD_RECORD_H

#include <stddef.h>

struct box;
struct snap;

#define RECORD_VERSION 1
#define RECORD_JSON_MAX (1024 * 1024)

/* malloc'ed; fatal when out of memory. */
char *record_box_encode(const struct box *);
char *record_snap_encode(const struct snap *);
/* Fills all but the id, which must be that of box or snap. 0, or -1: not a record of ours, or a
 * damaged one. */
int record_box_decode(const char *text, size_t len, struct box *);
int record_snap_decode(const char *text, size_t len, struct snap *);

#endif
