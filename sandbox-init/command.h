/* From fork to exec: the new process becomes the command. */
#ifndef SANDBOX_INIT_COMMAND_H
#define SANDBOX_INIT_COMMAND_H

struct args;

/* Descriptors 0, 1, 2 are in place. A program that cannot be run ends with 127 (not found) or 126;
 * missing, unless it is NULL, is set to the errno of that instead of a complaint. */
void command_run(const struct args *, int *missing) __attribute__((noreturn));

#endif
