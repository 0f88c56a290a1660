/* What a client inside asks for, whichever way it does. */
#ifndef SANDBOX_INIT_ASK_H
#define SANDBOX_INIT_ASK_H

#include <stdint.h>

#include "proto/dial.h"

struct ask {
	uint8_t how; /* enum dial_how */
	uint16_t port;
	uint16_t name_len;
	char name[DIAL_NAME_MAX]; /* as it was said, any bytes */
};

#endif
