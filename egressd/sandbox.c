/* egressd's own confinement: its tables, and nothing else. */
#include "egressd/egressd.h"

/*
 * It makes sockets and connects them: no file, no port of its own, no other program. A connection
 * takes two descriptors, and at most a few KiB when many wait (relay.c).
 */
const struct confine egressd_confine = {
    .promises = "stdio event recvfd sendfd connect",
    .paths = NULL,
    .root = ROOT_EMPTY,
    .nofile = 16384,
    .fsize_max = 0,
    .data_max = 256UL * 1024 * 1024,
    .tcp_out = 1,
};
