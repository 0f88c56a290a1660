/* Counts by the moment at which a bucket will be full again: no timer fills it. */
#include <string.h>

#include "managerd/rate.h"

#define MINUTE_US 60000000LL

int64_t
rate_take(int64_t *level_us, int64_t step_us, int64_t burst_us, int64_t now_us)
{
	int64_t full = *level_us > now_us ? *level_us : now_us;

	if (full + step_us - now_us > burst_us)
		return full + step_us - now_us - burst_us;
	*level_us = full + step_us;
	return 0;
}

uint32_t
rate_seconds(int64_t us)
{
	int64_t seconds = (us + 999999) / 1000000;

	return seconds < 1 ? 1 : seconds > 3600 ? 3600 : (uint32_t)seconds;
}

static int
is_v4(const uint8_t addr[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return memcmp(addr, mapped, sizeof(mapped)) == 0;
}

int
rate_is_loopback(const uint8_t addr[16])
{
	static const uint8_t six[16] = {[15] = 1};

	return memcmp(addr, six, sizeof(six)) == 0 || (is_v4(addr) && addr[12] == 127);
}

static size_t
set_of(const struct strangers *s, const uint64_t addr[2])
{
	__uint128_t product = (__uint128_t)(addr[0] ^ s->secret[0]) * (addr[1] ^ s->secret[1]);

	return (size_t)((uint64_t)(product >> 64) ^ (uint64_t)product) % STRANGERS_SETS;
}

int64_t
strangers_take(struct strangers *s, const uint8_t addr[16], int64_t a_minute, int64_t now_us)
{
	uint64_t who[2];
	struct stranger *set, *slot;
	int i;

	memcpy(who, addr, sizeof(who));
	if (!is_v4(addr))
		who[1] = 0;
	set = slot = s->slots[set_of(s, who)];
	for (i = 0; i < STRANGERS_WAYS; i++) {
		if (memcmp(set[i].addr, who, sizeof(who)) == 0) {
			slot = &set[i];
			break;
		}
		if (set[i].level_us < slot->level_us)
			slot = &set[i];
	}
	if (i == STRANGERS_WAYS) {
		memcpy(slot->addr, who, sizeof(who));
		slot->level_us = 0;
	}
	return rate_take(&slot->level_us, MINUTE_US / a_minute, MINUTE_US, now_us);
}
