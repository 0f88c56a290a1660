/* The data directory: everything managerd keeps, written so that a crash at any instant leaves old
 * or new, whole. */
#ifndef MANAGERD_STORE_H
#define MANAGERD_STORE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum store_dir { STORE_TOP, STORE_SANDBOXES, STORE_SNAPSHOTS, STORE_DIRS };

#define STORE_NAME_MAX 48

/* Opens the folders below the current root, making them when missing, and locks the data directory.
 * Fatal. */
void store_open(void);
/* The inode of the data directory: a copy has another. */
uint64_t store_inode(void);

/* "<prefix><id><suffix>"; out holds STORE_NAME_MAX bytes. */
char *store_name(char *out, const char *prefix, uint64_t id, const char *suffix);

/* Temp file, fsync, rename, fsync of the folder. -1 with errno: the old content is still there. */
int store_write(enum store_dir, const char *name, const void *data, size_t len);
/* The same without fsync: for what may be lost in a crash. */
int store_note(enum store_dir, const char *name, const void *data, size_t len);
/* The record of an id by store_write(); takes the text, and logs a failure. */
int store_record(enum store_dir, const char *prefix, uint64_t id, char *text);
/* Also when it is not there. -1 with errno. */
int store_remove(enum store_dir, const char *name);
/* malloc'ed content with a NUL behind it; NULL with errno (EFBIG: over max). */
char *store_read(enum store_dir, const char *name, size_t max, size_t *len);
/* Calls fn for every name in the folder but "." and "..". -1 with errno. */
int store_each(enum store_dir, void (*fn)(const char *name, void *arg), void *arg);

/* A snapshot's data file: "<id>.tmp" for writing (new), later "<id>.tar.zst". Descriptors, or -1
 * with errno. */
int snapfile_begin(uint64_t id);
/* Checks its size, makes it durable and gives it its name. -1 with errno (EIO: another size). */
int snapfile_commit(uint64_t id, int64_t size);
void snapfile_abandon(uint64_t id);
int snapfile_open(uint64_t id);
int snapfile_remove(uint64_t id);
int snapfile_exists(uint64_t id);

#endif
