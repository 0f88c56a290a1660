/* Puts archive entries to disk below one folder, following no link. */
#ifndef SANDBOX_INIT_UNPACK_H
#define SANDBOX_INIT_UNPACK_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct archive;
struct archive_entry;

/* Folders get their modes and times when all else is done: a closed one could not be filled. */
struct unpack_folder {
	char *name;
	mode_t mode;
	int64_t mtime;
	long mtime_nsec;
	int has_mtime;
	size_t order;
};

struct unpack {
	int base;  /* O_PATH descriptor of the folder */
	int exact; /* a snapshot: links lead where they lead, and the root has mode and time too */
	int depth; /* see names_leads_out() */
	struct unpack_folder *folders;
	size_t nfolders, cap;
	char cached[PATH_MAX]; /* the folder that cached_fd is */
	int cached_fd;         /* -1: none */
	uint32_t status;       /* 200 while all is well */
	char name[PATH_MAX];   /* of the entry at hand, cleaned */
	char reason[256];
};

/* 0, or -1 when status and reason say why not. */
int unpack_entry(struct unpack *, struct archive *, struct archive_entry *);
/* Modes and times of folders, deepest first, below base (another descriptor than the entries went
 * to, perhaps). */
int unpack_folders(struct unpack *, int base);
int unpack_fail(struct unpack *, uint32_t status, const char *reason);
int unpack_errno(struct unpack *, int error);
/* Opens the folder name below base without following links; O_PATH. -1 with errno. */
int unpack_open(int base, const char *name);

/* Moves everything in from (a folder in to, called name) to where it belongs in to; see merge.c. 0,
 * or -1 as above. */
int merge_into(struct unpack *, int from, int to);

#endif
