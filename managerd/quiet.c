/* Whether now is a moment for what can wait. */
#include <stdint.h>

#include "common/ids.h"
#include "managerd/box.h"
#include "managerd/engine.h"
#include "managerd/quiet.h"

#define QUIET_US 100000 /* longer than a client takes from one run to its next */

static int64_t busy_us; /* CLOCK_BOOTTIME: it was not quiet then */

void
quiet_broken(void)
{
	busy_us = time_boot_us();
}

static void
run_look(struct box *box, void *arg)
{
	*(int *)arg |= box->run && box->state != BOX_DESTROYING;
}

int
quiet(void)
{
	int runs = 0;

	box_each(run_look, &runs);
	if (runs || engine_busy())
		quiet_broken();
	return time_boot_us() - busy_us >= QUIET_US;
}
