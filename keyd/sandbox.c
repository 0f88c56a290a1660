/* keyd's own confinement: its channels, and nothing else. */
#include "keyd/keyd.h"

/* What it reads it is handed; what it signs goes back on a channel. */
const struct confine keyd_confine = {
    .promises = "stdio event recvfd sendfd",
    .paths = NULL,
    .root = ROOT_EMPTY,
    .nofile = 32,
    .fsize_max = 0,
    .data_max = 64UL * 1024 * 1024,
};
