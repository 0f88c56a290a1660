/* The guest stream: frames in from descriptor 0, frames out to descriptor 1. */
#ifndef SANDBOX_INIT_STREAM_H
#define SANDBOX_INIT_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"

/* Makes both descriptors non-blocking and watches them; on_frame gets every whole frame of
 * version-independent form. */
void stream_init(void (*on_frame)(const struct frame *));

/* Control frames: always taken. The payload is head, then tail. */
void stream_send(uint8_t type, uint16_t channel, const void *head, size_t head_len,
    const void *tail, size_t tail_len);

/* Data frames: only while there is room. Up to FRAME_DATA_MAX bytes go where reserve points; commit
 * queues them. */
int stream_room(void);
uint8_t *stream_reserve(void);
void stream_commit(uint8_t type, uint16_t channel, size_t len);

/*
 * Sends what can be sent: of a long queue whole pieces only, since a few bytes behind them would go
 * through every hop as a piece of their own, where a moment later they could begin the next one. 1:
 * such an end was kept; the next call sends it.
 */
int stream_flush(void);
/* Forgets what was not sent, since the attachment it was meant for is gone. */
void stream_drop(void);
/* Gives big buffers back; call now and then. Also looks again for input after an end of file. */
void stream_tick(void);

#endif
