/* The file in which keyd keeps what it has signed: audit_state.h. */
#include "common/audit_state.h"

#include <openssl/sha.h>
#include <string.h>

static const char magic[8] = "ASAUDIT1";

void
audit_slot_seal(struct audit_slot *s)
{
	SHA256((const uint8_t *)s, offsetof(struct audit_slot, sum), s->sum);
}

int
audit_slot_good(const struct audit_slot *s)
{
	struct audit_slot same = *s;

	audit_slot_seal(&same);
	return memcmp(same.sum, s->sum, sizeof(s->sum)) == 0;
}

void
audit_state_seal(struct audit_state_head *h)
{
	memcpy(h->magic, magic, sizeof(magic));
	SHA256((const uint8_t *)h, offsetof(struct audit_state_head, sum), h->sum);
}

static int
all_zero(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return 0;
	return 1;
}

enum audit_state
audit_state_read(const uint8_t file[AUDIT_STATE_SIZE], size_t n, struct audit_state_head *head,
    struct audit_slot *newest, int *which)
{
	struct audit_state_head same;
	struct audit_slot slot;
	int differs;

	/* The head is written last: without it nothing was ever signed. */
	if (n <= AUDIT_STATE_SIZE && all_zero(file, n < sizeof(*head) ? n : sizeof(*head)))
		return AUDIT_STATE_EMPTY;
	if (n != AUDIT_STATE_SIZE)
		return AUDIT_STATE_DAMAGED;
	memcpy(head, file, sizeof(*head));
	same = *head;
	audit_state_seal(&same);
	differs = memcmp(&same, head, sizeof(same)) != 0;
	explicit_bzero(&same, sizeof(same));
	if (differs)
		return AUDIT_STATE_DAMAGED;
	*which = -1;
	for (int i = 0; i < 2; i++) {
		memcpy(&slot, file + AUDIT_SLOT_AT(i), sizeof(slot));
		if (audit_slot_good(&slot) && (*which == -1 || slot.count > newest->count)) {
			*newest = slot;
			*which = i;
		}
	}
	return *which == -1 ? AUDIT_STATE_DAMAGED : AUDIT_STATE_GOOD;
}
