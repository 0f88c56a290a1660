/* What the routes of files and archives share. */
#ifndef APID_FILES_H
#define APID_FILES_H

#include "apid/path.h"
#include "apid/xfer.h"
#include "proto/apid_managerd.h"

struct file {
	struct xfer x;
	char path[FILE_PATH_MAX + 1];
	struct m_file m;
	struct evbuffer *out;
	struct r_meta meta;
	int64_t bytes;    /* moved so far */
	uint8_t has_meta; /* of an archive: it was begun */
	uint8_t entries;  /* of a list: there was one */
};

/*
 * Reads ?path= (fallback when it is missing, NULL: it must be given) and makes the state.
 * in_workspace: only below /workspace; 2: or that itself. NULL: the request was answered.
 */
struct file *file_new(struct req *, const char *fallback, int in_workspace);
/* End of an upload: RECORD_DONE with what was sent. */
void file_upload_end(struct xfer *);
/* One FileInfo object. */
void file_info(struct evbuffer *, const char *dir, const char *name, size_t n, int type,
    int64_t size, int64_t mtime_ns);
/* A piece of a download. */
void file_forward(struct file *, const uint8_t *p, size_t n);

#endif
