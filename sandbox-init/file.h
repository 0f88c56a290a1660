/* READ, WRITE, LIST and REMOVE. None of them forks, so they work also when no process can be
 * started. */
#ifndef SANDBOX_INIT_FILE_H
#define SANDBOX_INIT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/guest.h"

struct channel;
struct request;
struct stat;

void file_open(struct channel *, uint8_t type, const uint8_t *data, size_t len);
/* Whether this channel serves a WRITE: its end must wait while the workspace is frozen. */
int file_is_write(const struct channel *);

void file_read_open(struct channel *, const struct request *);
void file_write_open(struct channel *, const struct request *);
void file_list_open(struct channel *, const struct request *);
void file_remove(struct channel *, const struct request *);
int file_type(uint32_t st_mode); /* enum file_type of proto/data.h */
/* ns since 1970; the ends of the range, 1677 and 2262, for what lies beyond. */
int64_t file_mtime(const struct stat *);
void file_meta(struct channel *, const struct stat *, int64_t first, int64_t length);

#endif
