/* Cross-origin requests (cors.h). No answer ever allows credentials: the key is in a header. */
#include <stdio.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/cors.h"
#include "apid/req.h"

/* What a page may send and read beside what every page may. */
#define REQUEST_HEADERS \
	"Authorization, X-API-Key, Content-Type, Idempotency-Key, X-Request-Id, Range, If-Range"
#define ANSWER_HEADERS "X-Request-Id, Retry-After, Content-Range, Accept-Ranges, Allow"
#define PREFLIGHT_SECONDS "600"

void
cors_headers(struct req *r)
{
	struct slice origin = r->head.field[FIELD_ORIGIN];
	char text[256];

	if (apid.browser.origins[0] == '\0')
		return;
	req_header(r, "Vary", "Origin");
	if (!browser_invites(&apid.browser, origin))
		return;
	snprintf(text, sizeof(text), "%.*s", (int)origin.n, origin.p);
	req_header(r, "Access-Control-Allow-Origin", text);
	req_header(r, "Access-Control-Expose-Headers", ANSWER_HEADERS);
}

void
cors_preflight(struct req *r, const char *methods)
{
	if (!browser_invites(&apid.browser, r->head.field[FIELD_ORIGIN]))
		return;
	req_header(r, "Access-Control-Allow-Methods", methods);
	req_header(r, "Access-Control-Allow-Headers", REQUEST_HEADERS);
	req_header(r, "Access-Control-Max-Age", PREFLIGHT_SECONDS);
}
