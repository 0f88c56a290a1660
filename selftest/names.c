/* Names that are none, or that are not on the list, as the proxies of the sandbox are given them.
 */
#include <stdio.h>
#include <string.h>

#include "selftest/probe.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define LISTED "listed.selftest.invalid" /* on the list, beside *.below.selftest.invalid */

/* A yes, or that it was looked up: either means that it was taken for a name. */
static void
must_be_no_name(const char *name, size_t len)
{
	struct answer a;

	ask_connect(&a, name, len, 443);
	if (a.status != 400 && a.status != 403 && a.status != 431)
		broken("%s: %d %.80s", visible(name, len), a.status, a.text);
	else if (a.status == 403 && strstr(a.text, "the name is not valid") == NULL)
		broken("%s: %.80s", visible(name, len), a.text);
	answer_close(&a);
}

void
check_proxy_spellings(void)
{
	static const char *const spellings[] = {"127.1", "127.0.1", "2130706433", "0x7f000001",
	    "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.01", "127.0.0.1.", "127.0.0.0x1",
	    "010.0.0.1", "10.1", "167772161", "169.254.43518", "0xa9fea9fe", "2852039166",
	    "127.0.0.1.0x1", "127.000.000.001", "0", "0x0", "256.0.0.1", "127.0.0.256", "[::1",
	    "::1]", "[fe80::1%lo]", "[fe80::1%25lo]", "[::1]x", "[[::1]]"};
	struct answer a;

	for (size_t i = 0; i < COUNT(spellings); i++) {
		ask_connect(&a, spellings[i], strlen(spellings[i]), 443);
		if (a.status != 400 &&
		    (a.status != 403 || strstr(a.text, "the name is not valid") == NULL))
			broken("%s: %d %.80s", spellings[i], a.status, a.text);
		answer_close(&a);
	}
	holds("%zu, such as 127.1, 0x7f.0.0.1 and 2130706433: not valid", COUNT(spellings));
}

struct name {
	const char *text;
	size_t len;
};
#define NAME(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

static const struct name bad[] = {
    NAME(LISTED "\0.example"),
    NAME("\0" LISTED),
    NAME("127.0.0.1\0." LISTED),
    NAME(LISTED "\0"),
    NAME(LISTED "\t"),
    NAME("listed\x01.selftest.invalid"),
    NAME("listed\x7f.selftest.invalid"),
    NAME("b\xc3\xbc"
	 "cher.example"),
    NAME("\xef\xbc\x91\xef\xbc\x92\xef\xbc\x97.0.0.1"), /* full-width 127 */
    NAME("127\xe3\x80\x82"
	 "0\xe3\x80\x82"
	 "0\xe3\x80\x82"
	 "1"),                              /* ideographic full stops */
    NAME("listed.selftest.\xc4\xb1nvalid"), /* a dotless i */
    NAME("\xff\xfe.example"),
    NAME("\xc0\xaelocalhost"),
    NAME("."),
    NAME(".."),
    NAME("." LISTED),
    NAME("listed..selftest.invalid"),
    NAME(LISTED ".."),
    NAME("-listed.selftest.invalid"),
    NAME("localhost"),
    NAME("LOCALHOST."),
    NAME("x.localhost"),
    NAME("user@" LISTED),
    NAME(LISTED "@127.0.0.1"),
    NAME(LISTED "/"),
    NAME(LISTED "#.example"),
    NAME(LISTED "?.example"),
    NAME(LISTED "\\.example"),
    NAME("%6cisted.selftest.invalid"),
    NAME("*"),
    NAME("*.below.selftest.invalid"),
    NAME(LISTED ";"),
};

void
check_proxy_names(void)
{
	char lengthy[1000];

	for (size_t i = 0; i < COUNT(bad); i++)
		must_be_no_name(bad[i].text, bad[i].len);
	must_be_no_name(LISTED " ", sizeof(LISTED));
	memset(lengthy, 'a', sizeof(lengthy));
	must_be_no_name(lengthy, 64); /* one label */
	for (size_t i = 49; i < sizeof(lengthy); i += 50)
		lengthy[i] = '.';
	must_be_no_name(lengthy, 254);
	must_be_no_name(lengthy, 256);
	must_be_no_name(lengthy, sizeof(lengthy));
	must_be_no_name("", 0);
	holds("%zu names with NUL, blanks, other alphabets, empty or long labels: refused",
	    COUNT(bad) + 6);
}

void
check_proxy_socks_names(void)
{
	struct answer a;

	for (size_t i = 0; i < COUNT(bad); i++) {
		ask_socks(&a, 1, 3, bad[i].text, bad[i].len, 443);
		if (a.status != 2)
			broken(
			    "%s: reply %d %s", visible(bad[i].text, bad[i].len), a.status, a.text);
		answer_close(&a);
	}
	holds("%zu names: reply 2, not allowed", COUNT(bad));
}

static int
must_be_unlisted(const char *name, unsigned port)
{
	int unlisted;

	struct answer a;

	ask_connect(&a, name, strlen(name), port);
	unlisted = a.status == 403 && strstr(a.text, "not in the") != NULL;
	if (!unlisted)
		broken("%s:%u: %d %.80s", name, port, a.status, a.text);
	answer_close(&a);
	return unlisted;
}

void
check_proxy_unlisted(void)
{
	static const char *const names[] = {"selftest.invalid", "x" LISTED, "x." LISTED,
	    LISTED ".example", "listed.selftest", "listed-selftest.invalid",
	    "below.selftest.invalid", "xbelow.selftest.invalid", "xxbelow.selftest.invalid",
	    "a.below.selftest.invalid.example", "invalid", "example.com"};
	struct answer a;

	for (size_t i = 0; i < COUNT(names); i++)
		must_be_unlisted(names[i], 443);
	/* What is listed is not refused, but does not exist. */
	ask_connect(&a, "LISTED.Selftest.invalid.", sizeof("LISTED.Selftest.invalid.") - 1, 443);
	if (a.status != 502)
		broken("%s: %d %.80s", LISTED, a.status, a.text);
	answer_close(&a);
	holds("%zu names: not in the allowlist; one that is: %s", COUNT(names), a.text);
}

void
check_proxy_ports(void)
{
	static const unsigned ports[] = {1, 22, 25, 53, 79, 81, 444, 2375, 8080, 65535};
	struct answer a;

	/* One is enough: each that is let out may take its time. */
	for (size_t i = 0; i < COUNT(ports); i++)
		if (!must_be_unlisted(LISTED, ports[i]) || !must_be_unlisted("1.1.1.1", ports[i]))
			return;
	ask_connect(&a, LISTED, strlen(LISTED), 65536 + 443);
	if (a.status != 400)
		broken("port 65979: %d %.80s", a.status, a.text);
	answer_close(&a);
	ask_connect(&a, LISTED, strlen(LISTED), 0);
	if (a.status != 400 && a.status != 403)
		broken("port 0: %d %.80s", a.status, a.text);
	answer_close(&a);
	holds("%zu ports of a name and an address: not in the allowlist", COUNT(ports));
}

void
check_proxy_rebinding(void)
{
	struct answer a = {0};

	if (probe.rebind == NULL) {
		skipped("give --rebind: a name whose addresses are not public");
		return;
	}
	for (int i = 0; i < 12; i++) {
		ask_connect(&a, probe.rebind, strlen(probe.rebind), i % 2 ? 80 : 443);
		if (a.status != 403 || strstr(a.text, "is not public (") == NULL)
			broken("%s: %d %.80s", probe.rebind, a.status, a.text);
		answer_close(&a);
	}
	holds("asked 12 times; the last: %s", a.text);
}
