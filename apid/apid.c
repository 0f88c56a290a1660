/* What the parts of apid share (apid.h). */
#include <event2/buffer.h>

#include "apid/apid.h"
#include "common/log.h"

struct apid apid;

struct evbuffer *
buffer_new(void)
{
	struct evbuffer *b = evbuffer_new();

	if (b == NULL)
		fatal("evbuffer_new");
	return b;
}
