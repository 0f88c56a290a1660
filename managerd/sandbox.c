/* What managerd may do. */
#include "managerd/manager.h"

static const struct confine_path paths[] = {
    {"/", "rwc"}, /* the data directory is all there is */
    {NULL, NULL},
};

const struct confine managerd_confine = {
    .promises = "stdio event recvfd sendfd stream rpath wpath cpath",
    .paths = paths,
    .root = ROOT_DIR,
    .nofile = 16384,
    .fsize_max = 1ULL << 40,
    .data_max = 1ULL << 30,
};
