/*
 * Records on a data socket: {u32 length, u8 type} little-endian, then data. The types are in
 * proto/data.h. The reader is incremental and pure over a byte range; the writer keeps what the
 * socket did not take.
 */
#ifndef COMMON_RECORD_H
#define COMMON_RECORD_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_HEADER 5

/*
 * Looks for one record at the start of p[0..n). Returns its whole length (header included) and sets
 * *type, *data, *len; 0 when more bytes are needed; -1 when len > max (the stream cannot be used
 * any more).
 */
int64_t record_parse(
    const uint8_t *p, size_t n, size_t max, uint8_t *type, const uint8_t **data, size_t *len);
/* Writes the five header bytes. */
void record_header(uint8_t out[RECORD_HEADER], uint8_t type, uint32_t len);

#endif
