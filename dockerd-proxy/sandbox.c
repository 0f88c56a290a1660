/* What dockerd-proxy may do once it runs: talk to the engine's socket, the only thing in its root.
 */
#include "dockerd-proxy/proxy.h"

const struct confine confinement = {
    .promises = "stdio event recvfd sendfd unix",
    .paths = (const struct confine_path[]){{SOCKET_PATH, "rw"}, {NULL, NULL}},
    .root = ROOT_SOCKET,
    .nofile = 4096,
    .fsize_max = 0,
};
