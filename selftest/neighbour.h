/* What the program is for beside its checks: another sandbox to be reached, and what of the
 * processes inside only the outside can judge. */
#ifndef SELFTEST_NEIGHBOUR_H
#define SELFTEST_NEIGHBOUR_H

/* Listens in the background on every address, and prints "ADDRESS:PORT". Returns an exit status. */
int neighbour_listen(void);
/* Prints environments and arguments of all processes that can be read. Returns an exit status. */
int neighbour_environments(void);

#endif
