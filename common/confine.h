/*
 * Confinement in OpenBSD's vocabulary, made of Linux mechanisms. A program's sandbox.c is data: one
 * struct confine. promises -> seccomp: groups of system calls, each with its reason
 * (confine_groups.c); everything else kills. paths    -> Landlock: what may be reached below the
 * root; nothing else. root     -> its own mount namespace, in which this directory is all there is.
 * Then groups, gid and uid (verified), no_new_privs, not dumpable, rlimits.
 */
#ifndef COMMON_CONFINE_H
#define COMMON_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum confine_root {
	ROOT_KEEP,   /* the parent only */
	ROOT_EMPTY,  /* an empty read-only directory */
	ROOT_SOCKET, /* a read-only directory that holds one socket, "docker.sock" (or nothing if
			path is "") */
	ROOT_DIR,    /* the directory path, writable */
};

struct confine_path {
	const char *path;   /* below the new root; NULL ends the list */
	const char *rights; /* of "r" read, "w" write, "c" create and remove */
};

struct confine {
	const char *promises; /* "stdio recvfd sendfd ..."; the words are in confine_groups.c */
	const struct confine_path *paths;
	enum confine_root root;
	uint32_t nofile;    /* RLIMIT_NOFILE */
	uint64_t fsize_max; /* RLIMIT_FSIZE in bytes */
	uint64_t data_max;  /* RLIMIT_DATA in bytes; 0: leave */
	int tcp_out;        /* Landlock lets it connect by TCP; the promise is "connect" */
};

/* What only this start knows; it comes from the parent. */
struct confine_ids {
	uid_t uid;
	gid_t gid;
	gid_t extra_gid;  /* the only supplementary group; (gid_t)-1: none */
	const char *path; /* of ROOT_DIR and ROOT_SOCKET, in the parent's name space */
	int as_root;      /* the parent is root: change ids; else a user namespace of our own */
	int allow_weaker; /* a step that this kernel lacks is logged and left out, instead of fatal
			   */
};

/*
 * Does all of it, in order. Returns 0, or 1 when something was left out (allow_weaker, or not
 * root); every other failure is fatal. Afterwards nothing can be undone.
 */
int confine_enter(const struct confine *, const struct confine_ids *);

/* The parent's filter: everything but a list of calls it never needs (see confine_groups.c).
 * Returns as above. */
int confine_parent(int as_root, int allow_weaker);

/* What this kernel has; for doctor and the start log. */
struct confine_kernel {
	int landlock_abi; /* 0: none */
	int seccomp;
	int user_namespaces;
};
void confine_probe(struct confine_kernel *);

#endif
