/* Reads what travels beside a CREATE. */
#ifndef MANAGERD_CREATE_INPUT_H
#define MANAGERD_CREATE_INPUT_H

#include "managerd/spec.h"

/* Takes the data socket, on which everything was written before; anything else is apid's fault:
 * fatal. */
void create_input(int fd, struct strings *env, struct strings *labels);

#endif
