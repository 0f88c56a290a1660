/* What dockerd-proxy may do once it runs: talk to the engine's socket, the only thing in its root.
 */
#include "dockerd-proxy/sandbox.h"

const struct confine sandbox = {
    .promises = "stdio event recvfd sendfd unix",
    .paths = (const struct confine_path[]){{SOCKET_PATH, "rw"}, {NULL, NULL}},
    .root = ROOT_SOCKET,
    .nofile = 4096,
    .fsize_max = 0,
};
