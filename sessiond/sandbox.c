/* sessiond's own confinement: its tables, and nothing else. */
#include "sessiond/sandbox.h"

/*
 * It reads and writes sockets and files that it is given, and opens nothing; it makes a pair of
 * sockets for each connection out of the sandbox. fsize_max is set at the start, from the largest
 * snapshot.
 */
const struct confine confine_sessiond = {
    .promises = "stdio event recvfd sendfd socketpair stream",
    .paths = NULL,
    .root = ROOT_EMPTY,
    .nofile = 1024,
    .fsize_max = 0,
    .data_max = 512UL * 1024 * 1024,
};
