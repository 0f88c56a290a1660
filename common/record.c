/* Records on a data socket; see record.h. */
#include "common/record.h"

int64_t
record_parse(
    const uint8_t *p, size_t n, size_t max, uint8_t *type, const uint8_t **data, size_t *len)
{
	uint32_t size;

	if (n < RECORD_HEADER)
		return 0;
	size = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	if (size > max)
		return -1;
	if (n - RECORD_HEADER < size)
		return 0;
	*type = p[4];
	*data = p + RECORD_HEADER;
	*len = size;
	return RECORD_HEADER + (int64_t)size;
}

void
record_header(uint8_t out[RECORD_HEADER], uint8_t type, uint32_t len)
{
	out[0] = (uint8_t)len;
	out[1] = (uint8_t)(len >> 8);
	out[2] = (uint8_t)(len >> 16);
	out[3] = (uint8_t)(len >> 24);
	out[4] = type;
}
