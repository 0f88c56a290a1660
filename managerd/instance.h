/* Whose data directory this is. */
#ifndef MANAGERD_INSTANCE_H
#define MANAGERD_INSTANCE_H

#include <stdint.h>

struct instance {
	char uuid[40];
	char machine[65]; /* hex SHA-256 of the machine's id */
	uint64_t inode;   /* of the data directory */
	char engine[136]; /* which one holds its sandboxes; "": none was met yet */
	int version;      /* of the form of all that is in it */
};

/*
 * The form of a data directory. Raised with what an older version of this server would misread, and
 * so must refuse: 2 has an audit log with numbers and signed checkpoints.
 */
#define DATA_VERSION 2

/* malloc'ed JSON. */
char *instance_encode(const struct instance *);
/* 0, or -1. Of a newer version nothing but that is read. */
int instance_decode(const char *text, size_t len, struct instance *);

/* Before confinement: reads the machine's id and the boot's. */
void instance_warm(void);
/*
 * Loads instance.json or makes it, and sets mgr.uuid. A copied directory is refused (fatal) unless
 * the operator said what it is. Returns 1 when it became a new instance: its sandbox records are
 * another's.
 */
int instance_open(int rule);
/*
 * An engine is there and says which one it is. 0: the one that holds the sandboxes, which the first
 * one that is met becomes, and any while there are no records, and another one when the operator
 * said --adopt. -1: it is not.
 */
int instance_engine(const char *id);

#endif
