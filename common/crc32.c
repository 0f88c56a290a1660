/*
 * CRC-32; see crc32.h. Every byte of a stream goes through it twice, so where the processor can
 * multiply polynomials, long runs are folded sixteen bytes at a time; the rest goes by tables.
 * Nothing but libc, since sandbox-init links it.
 */
#include "common/crc32.h"

#define POLYNOMIAL 0xedb88320u
#define SLICES 16

/* crc_table[k][b]: the checksum's change by byte b that k more bytes follow. */
static uint32_t crc_table[SLICES][256];

/* c * x, in the order of bits that the checksum has: the lowest bit is the highest power. */
static uint32_t
times_x(uint32_t c)
{
	return c >> 1 ^ (c & 1 ? POLYNOMIAL : 0);
}

static void
table_init(void)
{
	uint32_t i, k, c;

	for (i = 0; i < 256; i++) {
		c = i;
		for (k = 0; k < 8; k++)
			c = times_x(c);
		crc_table[0][i] = c;
	}
	for (i = 0; i < 256; i++)
		for (k = 1; k < SLICES; k++) {
			c = crc_table[k - 1][i];
			crc_table[k][i] = c >> 8 ^ crc_table[0][c & 255];
		}
}

static uint32_t
get32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Sixteen bytes a round. crc is the register: not inverted. */
static uint32_t
table_update(uint32_t crc, const uint8_t *p, size_t len)
{
	uint32_t a, b, c, d;

	if (crc_table[0][1] == 0)
		table_init();
	for (; len >= SLICES; p += SLICES, len -= SLICES) {
		a = get32(p) ^ crc;
		b = get32(p + 4);
		c = get32(p + 8);
		d = get32(p + 12);
		crc = crc_table[15][a & 255] ^ crc_table[14][a >> 8 & 255] ^
		      crc_table[13][a >> 16 & 255] ^ crc_table[12][a >> 24] ^
		      crc_table[11][b & 255] ^ crc_table[10][b >> 8 & 255] ^
		      crc_table[9][b >> 16 & 255] ^ crc_table[8][b >> 24] ^ crc_table[7][c & 255] ^
		      crc_table[6][c >> 8 & 255] ^ crc_table[5][c >> 16 & 255] ^
		      crc_table[4][c >> 24] ^ crc_table[3][d & 255] ^ crc_table[2][d >> 8 & 255] ^
		      crc_table[1][d >> 16 & 255] ^ crc_table[0][d >> 24];
	}
	for (; len > 0; p++, len--)
		crc = crc >> 8 ^ crc_table[0][(crc ^ *p) & 255];
	return crc;
}

uint32_t
crc32_by_table(uint32_t crc, const void *data, size_t len)
{
	return ~table_update(~crc, data, len);
}

#ifdef __x86_64__
#include <immintrin.h>

#define FOLD_LANES 4
#define FOLD_STEP (FOLD_LANES * sizeof(__m128i))
#define WITH_CLMUL __attribute__((target("sse2,pclmul")))

/* x^n modulo the polynomial, where the product of two 64-bit halves wants it. */
static long long
power(unsigned n)
{
	uint32_t c = 0x80000000u;

	while (n-- > 0)
		c = times_x(c);
	return (long long)((uint64_t)c << 32);
}

/*
 * What 16 bytes are worth when moved n bits further to the end of the data: the first half, which
 * is 64 bits further from there, by x^(n + 64), the second one by x^n. One less, as the product of
 * two numbers in this order of bits comes out one place too far.
 */
static __m128i
distance(unsigned n)
{
	return _mm_set_epi64x(power(n - 1), power(n + 63));
}

/* Moves a by the distance k onto what lies there. */
static inline WITH_CLMUL __m128i
fold(__m128i a, __m128i k, __m128i there)
{
	return _mm_xor_si128(there,
	    _mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11)));
}

static inline __m128i
load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Four lanes, since one product need not wait for the next one's; then one; and the sixteen bytes
 * that are left have the same checksum as all before them. len is at least FOLD_STEP. */
static WITH_CLMUL uint32_t
fold_update(uint32_t crc, const uint8_t *p, size_t len)
{
	static __m128i four, one;
	static int ready;
	__m128i lane[FOLD_LANES];
	uint8_t left[sizeof(__m128i)];
	size_t i;

	if (!ready) {
		four = distance(8 * FOLD_STEP);
		one = distance(8 * sizeof(__m128i));
		ready = 1;
	}
	for (i = 0; i < FOLD_LANES; i++)
		lane[i] = load(p + i * sizeof(__m128i));
	lane[0] = _mm_xor_si128(lane[0], _mm_cvtsi32_si128((int)crc));
	for (p += FOLD_STEP, len -= FOLD_STEP; len >= FOLD_STEP; p += FOLD_STEP, len -= FOLD_STEP)
		for (i = 0; i < FOLD_LANES; i++)
			lane[i] = fold(lane[i], four, load(p + i * sizeof(__m128i)));
	for (i = 1; i < FOLD_LANES; i++)
		lane[i] = fold(lane[i - 1], one, lane[i]);
	_mm_storeu_si128((__m128i *)(void *)left, lane[FOLD_LANES - 1]);
	return table_update(table_update(0, left, sizeof(left)), p, len);
}

static int
can_fold(void)
{
	static int known, can;

	if (!known) {
		__builtin_cpu_init();
		can = __builtin_cpu_supports("pclmul") != 0;
		known = 1;
	}
	return can;
}

uint32_t
crc32_update(uint32_t crc, const void *data, size_t len)
{
	if (len < FOLD_STEP || !can_fold())
		return crc32_by_table(crc, data, len);
	return ~fold_update(~crc, data, len);
}
#else
uint32_t
crc32_update(uint32_t crc, const void *data, size_t len)
{
	return crc32_by_table(crc, data, len);
}
#endif
