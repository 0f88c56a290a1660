/* What an image may be called. Pure functions over text that comes from clients. */
#ifndef DOCKERD_PROXY_POLICY_H
#define DOCKERD_PROXY_POLICY_H

#include <stddef.h>
#include <stdint.h>

struct image_ref {
	char name[256]; /* with its registry, without tag and digest */
	char tag[160];  /* the digest if there is one, else the tag, else "latest" */
	char host[256]; /* the registry, or "" for the engine's default one */
};

/* Splits text[0..len), which must be a whole image reference: 0, or -1. */
int image_parse(const char *text, size_t len, struct image_ref *);
/* Whether one of the comma-separated globs covers image, which image_parse() took apart as ref. */
int image_allowed(const char *globs, const char *image, const struct image_ref *ref);

/* "1000:1000": 0, or -1 when it is not uid:gid, both from 1 to 2097151 (what a tar header can say).
 */
int user_parse(const char *text, uint32_t *uid, uint32_t *gid);

#endif
