/* What an image may be called. Pure functions over text that comes from clients; managerd and
 * dockerd-proxy both ask. */
#ifndef COMMON_IMAGE_REF_H
#define COMMON_IMAGE_REF_H

#include <stddef.h>

struct image_ref {
	char name[256]; /* with its registry, without tag and digest */
	char tag[160];  /* the digest if there is one, else the tag, else "latest" */
	char host[256]; /* the registry, or "" for the engine's default one */
};

/* Splits text[0..len), which must be a whole image reference: 0, or -1. */
int image_parse(const char *text, size_t len, struct image_ref *);
/* Whether one of the comma-separated globs covers image, which image_parse() took apart as ref. */
int image_allowed(const char *globs, const char *image, const struct image_ref *ref);

#endif
