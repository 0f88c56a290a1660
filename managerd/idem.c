/* Recognises a repeated request by its Idempotency-Key. */
#include <string.h>

#include "managerd/idem.h"

enum idem_verdict
idem_judge(const struct idem *known, const struct idem *asked)
{
	if (!known->given || !asked->given ||
	    memcmp(known->key, asked->key, sizeof(known->key)) != 0)
		return IDEM_OTHER;
	if (asked->at_us - known->at_us > IDEM_TIME_US)
		return IDEM_OTHER;
	if (memcmp(known->body, asked->body, sizeof(known->body)) != 0)
		return IDEM_CONFLICT;
	return IDEM_SAME;
}
