/* What the files of agent-sandbox-cp offer each other. */
#ifndef AGENT_SANDBOX_CP_CP_H
#define AGENT_SANDBOX_CP_CP_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

struct archive;

struct copied {
	int64_t bytes; /* of files */
	int64_t files;
	int64_t left_out;   /* sockets, devices, FIFOs */
	int64_t links_left; /* links that lead out of what is copied */
};

struct cp_options {
	int force;     /* what exists is replaced */
	int all_links; /* also those that lead out of what is copied */
	int quiet;
};

extern struct cp_options cp_options;
/* A signal that came; what is half-way is removed then. */
extern volatile sig_atomic_t cp_caught;

/* Both copy all or nothing, and on failure say why and exit. */
void up_copy(const char *local, const char *sandbox, const char *path, struct copied *);
void down_copy(const char *sandbox, const char *path, const char *local, struct copied *);

/* An archive of local, whose top is called name; made piece by piece. NULL and errno if it cannot
 * be looked at. */
struct pack;
struct pack *pack_new(const char *local, const char *name, struct copied *);
/* For api_call_upload(), with the pack as its argument. What fails is said by pack_error(). */
ssize_t pack_read(void *pack, char *buf, size_t size);
const char *pack_error(const struct pack *);
void pack_free(struct pack *);
/* Bytes of the files below local. */
int64_t pack_size(const char *local);

/*
 * Unpacks into the folder dir (a descriptor), in which name must not exist yet: a folder or a file
 * of this name is made of the archive. Nothing in the archive can lead out of it. Returns 0; or
 * why (of EXTRACT_WHY bytes) and -1, or EXTRACT_BAD if that is the archive's fault; what was made
 * till then is there.
 */
#define EXTRACT_BAD (-2)
#define EXTRACT_WHY 512
int extract_tree(struct archive *, int dir, const char *name, struct copied *, char *why);
/* Removes name in dir and all below it. 0, or -1 with errno. */
int tree_remove(int dir, const char *name);
/* Moves from to to, both in dir. replace: a file that is there is replaced, folders on both sides
 * become one. 0, or -1 with errno; EEXIST if something is there. */
int tree_place(int dir, const char *from, const char *to, int replace);

/*
 * Does a link in a folder so deep below the top stay inside of the top? ".." only leads up from
 * real folders when it stands in front: behind a name it may follow another link. Pure.
 */
int link_stays_inside(const char *target, int depth);

/* A line on the terminal, if standard error is one. total 0: not known. */
void progress_start(const char *name, int64_t total);
void progress_total(int64_t total);
void progress_add(int64_t bytes);
/* Takes the line away, and says what was copied. */
void progress_end(const struct copied *);
void progress_clear(void);

#endif
