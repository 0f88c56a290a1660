/* CRC-32 (IEEE 802.3, reflected, as in zlib). */
#ifndef COMMON_CRC32_H
#define COMMON_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what gave crc and then data. Start with 0. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t len);
/* The same without the processor's help; only for tests to call. */
uint32_t crc32_by_table(uint32_t crc, const void *data, size_t len);

#endif
