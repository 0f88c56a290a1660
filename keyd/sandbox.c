/* keyd's own confinement: its channels, and nothing else. */
#include "keyd/keyd.h"

/* What it reads it is handed, and so is the one file that it writes; what it signs goes back on a
 * channel. */
const struct confine keyd_confine = {
    .promises = "stdio event recvfd sendfd",
    .paths = NULL,
    .root = ROOT_EMPTY,
    .nofile = 32,
    .fsize_max = 4096,
    .data_max = 64UL * 1024 * 1024,
};
