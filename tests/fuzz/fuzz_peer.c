// link: apid/head.o apid/peer.o apid/proxy_header.o common/keys_net.o
/* What proxies say of their clients: the header before a connection, however it arrives, and the
 * field of a request. */
#include <stdlib.h>
#include <string.h>

#include "apid/head.h"
#include "apid/proxy_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static int
parse(const uint8_t *p, size_t n, struct peer_addr *peer, size_t *used)
{
	uint8_t *copy = malloc(n + 1);
	int r;

	if (copy == NULL)
		abort();
	memcpy(copy, p, n);
	r = proxy_header_parse(copy, n, peer, used);
	if (*used > n || (r != 1 && *used != 0))
		abort();
	free(copy);
	return r;
}

static void
check_text(const struct peer_addr *p)
{
	if (memchr(p->text, '\0', sizeof(p->text)) == NULL)
		abort();
}

/* An answer is final: more bytes do not change it. */
static void
proxy_header(const uint8_t *p, size_t n, size_t step)
{
	struct peer_addr whole = {0}, cut = {0};
	size_t used, part = 0, at;
	int r = parse(p, n, &whole, &used), early = 0;

	for (at = 0; at < n && early == 0; at += step)
		early = parse(p, at, &cut, &part);
	check_text(&whole);
	if (early != 0 && (early != r || part != used || memcmp(&whole, &cut, sizeof(whole)) != 0))
		abort();
}

static void
forwarded(const uint8_t *p, size_t n)
{
	static const uint8_t local[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	static struct peer_trust trust;
	struct peer_addr peer;
	struct head head;
	const char *why;
	char *copy;

	if (trust.count == 0)
		peer_trust_init(&trust, "127.0.0.0/8, 10.1.2.3, 2001:db8::/32");
	if ((copy = malloc(n + 1)) == NULL)
		abort();
	memcpy(copy, p, n);
	peer_set(&peer, local, 1);
	if (head_parse(copy, n, &head, &why) == 0) {
		peer_forwarded(copy, n, &trust, &peer);
		check_text(&peer);
	}
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	if (n < 1)
		return 0;
	proxy_header(data + 1, n - 1, (size_t)data[0] + 1);
	forwarded(data + 1, n - 1);
	return 0;
}
