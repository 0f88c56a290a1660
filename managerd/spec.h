/* What a sandbox is made of: kept in its record, and in each of its snapshots for forks. */
#ifndef MANAGERD_SPEC_H
#define MANAGERD_SPEC_H

#include <stddef.h>
#include <stdint.h>

/* A list of strings in one block, each with its NUL. */
struct strings {
	char *bytes;
	size_t len;
	size_t count;
};

struct spec {
	char *image;
	int64_t nano_cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	uint8_t network;
	uint8_t read_only;
	char *egress;          /* allowlist, canonical, '\n' between; "": no way out; NULL: none */
	struct strings env;    /* "NAME=value" */
	struct strings labels; /* name, value, name, value … */
};

/* All fatal when out of memory. */
void strings_add(struct strings *, const char *text, size_t len);
void strings_clear(struct strings *);
/* Behind the last byte; NULL, as bytes is, when there is none. */
const char *strings_end(const struct strings *);
void spec_copy(struct spec *to, const struct spec *from);
void spec_clear(struct spec *);
/* The value of a label, or NULL. */
const char *spec_label(const struct spec *, const char *name);
/* 0, or -1 when one breaks the bounds of the API. */
int spec_env_check(const struct strings *);
int spec_labels_check(const struct strings *);

#endif
