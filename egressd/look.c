/* First bytes against the name that was dialled; see look.h. */
#include "egressd/look.h"

#include <stdlib.h>
#include <string.h>

#include "egressd/http.h"
#include "egressd/tls.h"

enum look
look_for(uint16_t port, uint8_t how)
{
	if (port == 80 || how == DIAL_HTTP)
		return LOOK_HTTP;
	return port == 443 ? LOOK_TLS : LOOK_NOT;
}

static int
same_host(const char *text, size_t len, const struct egress_host *dialled)
{
	struct egress_host host;
	const char *why;

	return egress_host(text, len, &host, &why) == 0 && strcmp(host.name, dialled->name) == 0;
}

/* host or host:port, in which only the port that was dialled may stand. */
static int
same_authority(const char *text, size_t len, const struct egress_host *dialled, uint16_t port)
{
	char digits[8];
	size_t end = len, n;

	while (end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9')
		end--;
	n = len - end;
	/* An address of version 6 stands in brackets here. */
	if (end > 0 && text[end - 1] == ':' && (text[0] != '[' || text[end - 2] == ']')) {
		if (n == 0 || n >= sizeof(digits) - 1)
			return 0;
		memcpy(digits, text + end, n);
		digits[n] = '\0';
		if (strtoul(digits, NULL, 10) != port)
			return 0;
		len = end - 1;
	}
	if (len == 0 || (text[0] != '[' && memchr(text, ':', len) != NULL))
		return 0;
	return same_host(text, len, dialled);
}

static enum look_result
look_tls(const uint8_t *p, size_t n, const struct egress_host *dialled, enum reason *why)
{
	struct tls_name name;
	enum tls_result r = tls_hello(p, n, &name);

	if (r == TLS_MORE)
		return LOOK_MORE;
	*why = r == TLS_BAD ? REASON_NOT_HELLO : REASON_OTHER_SNI;
	if (r == TLS_NONE && dialled->addr.family != 0)
		return LOOK_PASS;
	if (r == TLS_NAME && same_host((const char *)name.name, name.len, dialled))
		return LOOK_PASS;
	return LOOK_REFUSE;
}

static enum look_result
look_http(
    const uint8_t *p, size_t n, const struct egress_host *dialled, uint16_t port, enum reason *why)
{
	struct http_host host;
	enum http_result r = http_head(p, n, &host);

	if (r == HTTP_MORE)
		return LOOK_MORE;
	*why = r == HTTP_BAD ? REASON_NOT_HTTP : REASON_OTHER_HOST;
	if (r == HTTP_HOST && same_authority(host.host, host.len, dialled, port) &&
	    (host.target_len == 0 || same_authority(host.target, host.target_len, dialled, port)))
		return LOOK_PASS;
	return LOOK_REFUSE;
}

enum look_result
look_at(enum look look, const uint8_t *p, size_t n, const struct egress_host *dialled,
    uint16_t port, enum reason *why)
{
	enum look_result r;

	/* SSLv2's frame shows itself by four bytes, the first of which no text has. */
	if (look == LOOK_TLS && n < 4 && (p[0] & 0x80) != 0)
		return LOOK_MORE;
	if (look != LOOK_NOT && tls_begins(p, n))
		r = look_tls(p, n, dialled, why);
	else if (look == LOOK_HTTP)
		r = look_http(p, n, dialled, port, why);
	else
		return LOOK_PASS;
	if (r == LOOK_MORE && n >= LOOK_MAX) {
		*why = tls_begins(p, n) ? REASON_NOT_HELLO : REASON_NOT_HTTP;
		return LOOK_REFUSE;
	}
	return r;
}
