/* EXPORT and IMPORT inside PID 1: moves the tar between channel and worker, and freezes the sandbox
 * for snapshots. */
#ifndef SANDBOX_INIT_TRANSFER_H
#define SANDBOX_INIT_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

struct channel;

void transfer_open(struct channel *, uint8_t type, const uint8_t *data, size_t len);
/* Whether a worker of an attachment that has gone still puts things back: no snapshot may begin. */
int transfer_cleaning(void);

#endif
