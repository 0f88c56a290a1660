/* Identifiers: 64 random bits, written as a prefix and 16 lower-case hex digits; times. */
#ifndef COMMON_IDS_H
#define COMMON_IDS_H

#include <stddef.h>
#include <stdint.h>

#define ID_TEXT_MAX 32 /* longest prefix + 16 digits + NUL, with room */

/* Never 0. From the system CSPRNG. */
uint64_t id_new(void);
/* Writes prefix ("sb_") and digits; buf holds ID_TEXT_MAX bytes; returns buf. */
char *id_text(char *buf, const char *prefix, uint64_t id);
/* 0 and *id, or -1 when text is not exactly prefix + 16 lower-case hex digits (or all zeros). */
int id_parse(const char *text, const char *prefix, uint64_t *id);

/* Lower-case hex of n bytes; out holds 2n + 1. */
void hex_encode(const uint8_t *in, size_t n, char *out);
/* Exactly n bytes from 2n hex digits and nothing behind: 0, or -1. */
int hex_decode(const char *text, uint8_t *out, size_t n);

int64_t time_wall_us(void); /* CLOCK_REALTIME, microseconds since 1970 */
int64_t time_boot_us(void); /* CLOCK_BOOTTIME, microseconds: counts while suspended, never jumps */

#define TIME_TEXT_MAX 32
/* RFC 3339, UTC, microseconds, Z; buf holds TIME_TEXT_MAX bytes; returns buf. Years outside 0-9999
 * are clamped. */
char *time_text(char *buf, int64_t wall_us);
/* The other way: "2027-01-31T00:00:00Z", with at most six digits of a second's fraction. 0, or -1
 * when text is not exactly that or no such moment is. */
int time_parse(const char *text, int64_t *wall_us);

#endif
