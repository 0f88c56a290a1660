/* Between the files of confine.c: rows of system calls, and the steps of confine_enter(). For
 * nobody else but tests. */
#ifndef COMMON_CONFINE_RULES_H
#define COMMON_CONFINE_RULES_H

#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>

#include "common/confine.h"

/* Sanitizers need more of the kernel than a program promises; such a build is for tests only. */
#if defined(__SANITIZE_ADDRESS__)
#define CONFINE_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define CONFINE_SANITIZED
#endif
#endif

enum confine_op {
	OP_NONE,
	OP_EQ,     /* all 64 bits equal */
	OP_WITHIN, /* no bit outside value, of all 64 */
	OP_EQ32,   /* the low 32 bits equal: for refusals of what the kernel takes as an int */
	OP_SOME32, /* one of these low bits: likewise */
	OP_SELF,   /* equals our own process id, all 64 bits */
};

struct confine_test {
	uint8_t op; /* enum confine_op */
	uint8_t arg;
	uint64_t value;
};

#define CONFINE_TESTS 3

/* One row: this call, if all its tests hold, is allowed (error 0) or fails with error. Rows are
 * tried in order. */
struct confine_rule {
	int nr;
	uint16_t error;
	struct confine_test test[CONFINE_TESTS];
};

struct confine_group {
	const char *name; /* the promise */
	const char *why;
	const struct confine_rule *rules;
	size_t nrules;
};

/* The vocabulary; ends with a group without a name. */
extern const struct confine_group confine_groups[];
/* Added to every program's promises: what libraries try and can do without; and what sanitizers
 * need. */
extern const struct confine_group confine_group_always;
/* The parent's refusals: always, and when it is root. */
extern const struct confine_group confine_group_parent;
extern const struct confine_group confine_group_parent_root;
/* What a client of the API does without, beside the parent's refusals; goes before them. */
extern const struct confine_group confine_group_client;

/* Calls newer than this fail with ENOSYS, as on the kernel that the tables were written for. Raise
 * it after review. */
#define CONFINE_LAST_REVIEWED 469
/* prctl(2) with this option fails with EALREADY below the parent's filter, and EINVAL elsewhere. */
#define CONFINE_MARK 0x41534446

#define CONFINE_FILTER_MAX 2048 /* instructions */

struct confine_filter {
	struct sock_filter code[CONFINE_FILTER_MAX];
	size_t n;
	uint32_t otherwise; /* what happens to a call that no row names */
};

/* Builds a filter: begin, any number of groups, end. */
void confine_filter_begin(struct confine_filter *, uint32_t otherwise);
void confine_filter_add(struct confine_filter *, const struct confine_group *);
void confine_filter_end(struct confine_filter *);
/* All of a program's promises. An unknown word is fatal. */
void confine_filter_promises(struct confine_filter *, const char *promises);
/* -1 with errno when this kernel does not take it. */
int confine_filter_load(const struct confine_filter *);

/* The root directory. Returns 0, or 1 when only a weaker form was possible (and allowed). */
int confine_root_enter(const struct confine *, const struct confine_ids *);
/* Landlock; 0 or 1 likewise. */
int confine_landlock_enter(const struct confine *, const struct confine_ids *);
int confine_landlock_abi(void);
/* A client: these paths, as far as they exist, TCP only outwards, no signal. -1 with errno if the
 * kernel has none of it. */
int confine_landlock_client(const struct confine_path *paths);

/* A step that this kernel does not offer (errno says why): fatal, or 1 and a warning. */
int confine_weaker(const struct confine_ids *, const char *step);

#endif
