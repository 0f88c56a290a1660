/* From fork to exec: the new process becomes the command. */
#ifndef SANDBOX_INIT_COMMAND_H
#define SANDBOX_INIT_COMMAND_H

struct args;

/* Descriptors 0, 1, 2 are in place. A program that cannot be run ends with 127 (not found) or 126.
 */
void command_run(const struct args *) __attribute__((noreturn));

#endif
