/*
 * The engine's framing of an attached container without a terminal: {u8 stream, 3 zeros, u32
 * big-endian length}, then bytes. Pure.
 */
#ifndef SESSIOND_STDCOPY_H
#define SESSIOND_STDCOPY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STDCOPY_HEADER 8
#define STDCOPY_STDOUT 1
#define STDCOPY_STDERR 2
#define STDCOPY_LEN_MAX (1024 * 1024) /* engines send at most 32 KiB */

/* Zeroed is the start of a stream. */
struct stdcopy {
	uint8_t header[STDCOPY_HEADER];
	uint8_t have;  /* bytes of header */
	uint32_t left; /* data bytes of this piece still to come */
};

/*
 * Takes p[0..n), moves the bytes of standard output to the front of p and returns how many; those
 * of standard error are dropped. -1: the framing is broken.
 */
ssize_t stdcopy_unwrap(struct stdcopy *, uint8_t *p, size_t n);

#endif
