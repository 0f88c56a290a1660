/* sessiond's own confinement. */
#ifndef SESSIOND_SANDBOX_H
#define SESSIOND_SANDBOX_H

#include "common/confine.h"

extern const struct confine confine_sessiond;

#endif
