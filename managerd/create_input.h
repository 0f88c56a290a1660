/* Reads what travels beside a CREATE. */
#ifndef MANAGERD_CREATE_INPUT_H
#define MANAGERD_CREATE_INPUT_H

#include "managerd/spec.h"

#define CREATE_RECORDS_MAX (512 * 1024)

struct create_input {
	struct strings env;
	struct strings labels;
	struct strings egress; /* entries as the client wrote them */
};

/* Takes the data socket, on which everything was written before; anything else is apid's fault:
 * fatal. */
void create_input_read(int fd, struct create_input *);
void create_input_clear(struct create_input *);
/*
 * The records: ENV*, LABEL*, EGRESS*, DONE, in p[0..n). 0, or -1 when they are not exactly that, or
 * break the bounds. Pure.
 */
int create_records(const uint8_t *p, size_t n, struct create_input *);

#endif
