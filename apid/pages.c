/* GET of what is embedded: the description of the API, the pages, and what these load. All of it is
 * read-only memory of the program; nothing is opened. */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/route.h"
#include "common/embed.h"
#include "common/log.h"

/* A page loads from here alone, and nothing that stands in it as text is ever run. */
#define PAGE_POLICY                                                                       \
	"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " \
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct page {
	const char *path, *type, *etag, *bytes;
	const uint64_t *size;
};

/* Written by apid/pages-table, a row for each file: number, path, type, ETag, name of the file. */
#define PAGE(number, path, type, etag, file) EMBED(page_##number, file);
#include "pages.inc"
#undef PAGE

static const struct page pages[] = {
#define PAGE(number, path, type, etag, file) \
	{path, type, "\"" etag "\"", page_##number, &page_##number##_size},
#include "pages.inc"
};

static const struct page *
find_page(struct slice path)
{
	size_t i;

	for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		if (strlen(pages[i].path) == path.n && memcmp(pages[i].path, path.p, path.n) == 0)
			return &pages[i];
	}
	return NULL;
}

/* If-None-Match: a list of validators, each perhaps said to be weak, or "*". */
static int
client_has(const struct req *r, const struct page *page)
{
	struct slice known = r->head.field[FIELD_IF_NONE_MATCH];
	char weak[128];

	snprintf(weak, sizeof(weak), "W/%s", page->etag);
	return head_has_token(known, page->etag) || head_has_token(known, weak) ||
	       head_has_token(known, "*");
}

static void
page_headers(struct req *r, const struct page *page)
{
	int html = strncmp(page->type, "text/html", 9) == 0;

	r->has_policy = 1;
	req_header(r, "ETag", page->etag);
	req_header(r, "Cache-Control", "no-cache");
	req_header(r, "Content-Security-Policy", html ? PAGE_POLICY : NO_CONTENT_POLICY);
	req_header(r, "Referrer-Policy", "no-referrer");
	req_header(r, "Cross-Origin-Resource-Policy", "same-origin");
	if (html) {
		req_header(r, "Cross-Origin-Opener-Policy", "same-origin");
		req_header(r, "Cross-Origin-Embedder-Policy", "require-corp");
	}
}

void
page_get(struct req *r)
{
	const struct page *page = find_page(r->path);
	struct evbuffer *body;

	if (page == NULL) {
		req_error(r, 404, "there is nothing at this path");
		return;
	}
	page_headers(r, page);
	if (client_has(r, page)) {
		req_reply(r, 304, NULL);
		return;
	}
	req_header(r, "Content-Type", page->type);
	body = buffer_new();
	if (evbuffer_add_reference(body, page->bytes, *page->size, NULL, NULL) == -1)
		fatal("evbuffer_add_reference");
	req_reply(r, 200, body);
}
