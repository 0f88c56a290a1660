/* What web pages of other origins are told that the configuration lets in (browser.h). */
#ifndef APID_CORS_H
#define APID_CORS_H

struct req;

/* The headers of every answer. */
void cors_headers(struct req *);
/* Those of the answer to a question before the request; methods are those of the path. */
void cors_preflight(struct req *, const char *methods);

#endif
