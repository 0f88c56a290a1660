#ifndef DOCKERD_PROXY_SANDBOX_H
#define DOCKERD_PROXY_SANDBOX_H

#include "dockerd-proxy/proxy.h"

extern const struct confine sandbox;

#endif
