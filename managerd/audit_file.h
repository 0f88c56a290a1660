/*
 * The files of the audit log: the open one, and the closed ones beside it in the current folder.
 * Space behind the end is reserved, so that what is under way can be written when the disk is full.
 */
#ifndef MANAGERD_AUDIT_FILE_H
#define MANAGERD_AUDIT_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/audit_line.h"

#define AUDIT_RESERVE (1024 * 1024)

struct audit_file {
	int fd;
	off_t size;                 /* of the whole lines */
	off_t reserved;             /* up to here there is space */
	uint64_t first;             /* seq of its first line; 0: a line of before there was one */
	uint64_t seq;               /* of the last line, in whichever file; 0: none */
	char head[AUDIT_HASH_TEXT]; /* SHA-256 of that line */
};
extern struct audit_file audit_file;

/* Opens or makes it, and learns seq and head. Returns how many bytes of a torn line were cut.
 * Fatal. */
size_t audit_file_open(void);
/* line[0..len) and a newline, whole or not at all: 0, or -1. line[len] is written to. */
int audit_file_append(char *line, size_t len);
/* Whether AUDIT_RESERVE bytes behind the end are reserved; tries to. */
int audit_file_reserve(void);
/* Makes ready the file that comes after this one; a disk that is full shows here. -1 with errno. */
int audit_file_next(void);
/* Closes this file and begins that one. -1 with errno: all is as it was. */
int audit_file_rotate(void);
/* The closed file with the newest lines: its first seq. -1: none. */
int audit_file_newest(uint64_t *first);
/* The closed file with the oldest lines: its first seq, and how many there are. -1: none. */
int audit_file_oldest(uint64_t *first, size_t *count);
/* Hash and seq of a closed file's last line: 0, or -1. */
int audit_file_last(uint64_t first, uint64_t *seq, char head[AUDIT_HASH_TEXT]);
/* Hash of the line with this seq, wherever it is: 0, or -1 when there is none. */
int audit_file_find(uint64_t seq, char head[AUDIT_HASH_TEXT]);
int audit_file_remove(uint64_t first);

/* SHA-256 in hex. */
void audit_hash(const char *p, size_t n, char out[AUDIT_HASH_TEXT]);

#endif
