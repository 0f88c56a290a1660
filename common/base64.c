/* Base64 (base64.h). */
#include "common/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int
value_of(char ch, int url)
{
	if (ch >= 'A' && ch <= 'Z')
		return ch - 'A';
	if (ch >= 'a' && ch <= 'z')
		return ch - 'a' + 26;
	if (ch >= '0' && ch <= '9')
		return ch - '0' + 52;
	if (ch == (url ? '-' : '+'))
		return 62;
	return ch == (url ? '_' : '/') ? 63 : -1;
}

int
base64_decode(const char *p, size_t n, int url, char *out, size_t *len)
{
	uint32_t bits = 0;
	size_t i, o = 0;
	int v;

	if (n > 0 && n % 4 == 0 && p[n - 1] == '=')
		n -= p[n - 2] == '=' ? 2 : 1;
	if (n % 4 == 1)
		return -1;
	for (i = 0; i < n; i++) {
		if ((v = value_of(p[i], url)) == -1)
			return -1;
		bits = bits << 6 | (uint32_t)v;
		if (i % 4 == 3) {
			out[o++] = (char)(bits >> 16);
			out[o++] = (char)(bits >> 8);
			out[o++] = (char)bits;
		}
	}
	if (n % 4 == 2) {
		out[o++] = (char)(bits >> 4);
	} else if (n % 4 == 3) {
		out[o++] = (char)(bits >> 10);
		out[o++] = (char)(bits >> 2);
	}
	*len = o;
	return 0;
}

size_t
base64_encode(const uint8_t *p, size_t n, char *out)
{
	size_t i, o = 0;
	uint32_t v;

	for (i = 0; i < n; i += 3) {
		v = (uint32_t)p[i] << 16;
		if (i + 1 < n)
			v |= (uint32_t)p[i + 1] << 8;
		if (i + 2 < n)
			v |= p[i + 2];
		out[o++] = alphabet[v >> 18];
		out[o++] = alphabet[v >> 12 & 63];
		out[o++] = i + 1 < n ? alphabet[v >> 6 & 63] : '=';
		out[o++] = i + 2 < n ? alphabet[v & 63] : '=';
	}
	return o;
}
