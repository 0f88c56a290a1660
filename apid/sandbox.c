/* What apid may do once it runs: serve TCP clients, talk to managerd, make data sockets. No file,
 * no connect. */
#include "apid/apid.h"
#include "common/confine.h"

const struct confine confine_apid = {
    .promises = "stdio event recvfd sendfd socketpair stream inet",
    .root = ROOT_EMPTY,
    .nofile = 0, /* main.c: it follows MAX_CONNECTIONS */
    .fsize_max = 0,
    .data_max = 0,
};
