/* Signs checkpoints of the audit log, and never goes back (audit.h). */
#include <bsd/stdlib.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/audit_line.h"
#include "common/audit_state.h"
#include "common/ids.h"
#include "common/log.h"
#include "keyd/audit.h"

#define A_SECOND 10 /* each one waits for the disk, and handshakes wait meanwhile */

static EVP_PKEY *key;
static uint8_t public[32];
static struct audit_slot slot; /* as in the file */
static int which, fd = -1;

static EVP_PKEY *
ed25519(const uint8_t seed[32])
{
	EVP_PKEY *k = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, 32);

	if (k == NULL)
		fatalx("libcrypto has no Ed25519");
	return k;
}

static int
sign(EVP_PKEY *k, const char *text, size_t n, uint8_t signature[64])
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = 64;
	int ok = ctx != NULL && EVP_DigestSignInit(ctx, NULL, NULL, NULL, k) == 1 &&
		 EVP_DigestSign(ctx, signature, &len, (const uint8_t *)text, n) == 1 && len == 64;

	EVP_MD_CTX_free(ctx);
	ERR_clear_error();
	return ok ? 0 : -1;
}

void
audit_init(void)
{
	static const uint8_t seed[32];
	struct audit_slot none = {0};
	uint8_t signature[64];
	EVP_PKEY *k = ed25519(seed);

	audit_slot_seal(&none);
	if (sign(k, "", 0, signature) == -1)
		fatalx("libcrypto cannot sign with Ed25519");
	EVP_PKEY_free(k);
}

/* The other slot, so that one is whole whatever happens. durable: else it outlives keyd, but
 * perhaps not a loss of power. */
static int
slot_write(const struct audit_slot *to, int durable)
{
	struct audit_slot next = *to;

	next.count = slot.count + 1;
	audit_slot_seal(&next);
	if (pwrite(fd, &next, sizeof(next), AUDIT_SLOT_AT(!which)) != (ssize_t)sizeof(next) ||
	    (durable && fdatasync(fd) == -1)) {
		log_warn("the state of the audit log");
		return -1;
	}
	which = !which;
	slot = next;
	return 0;
}

/* The head comes last: without it the file is one that was never used. */
static void
make(struct audit_state_head *head)
{
	static const uint8_t zeros[AUDIT_STATE_SIZE];

	arc4random_buf(head->seed, sizeof(head->seed));
	audit_state_seal(head);
	memset(&slot, 0, sizeof(slot));
	which = 1;
	if (ftruncate(fd, 0) == -1 ||
	    pwrite(fd, zeros, sizeof(zeros), 0) != (ssize_t)sizeof(zeros) ||
	    slot_write(&slot, 1) == -1 ||
	    pwrite(fd, head, sizeof(*head), 0) != (ssize_t)sizeof(*head) || fsync(fd) == -1)
		fatal_config(
		    "the file keyd/" AUDIT_STATE_FILE " in the data directory cannot be written");
	log_info("a new key signs the audit log");
}

static void
write_public(int pub)
{
	char text[2 * sizeof(public) + 2], now[sizeof(text)];
	const ssize_t n = sizeof(text) - 1;

	hex_encode(public, sizeof(public), text);
	strcpy(text + n - 1, "\n");
	if (pread(pub, now, sizeof(now), 0) != n || memcmp(now, text, (size_t)n) != 0)
		if (ftruncate(pub, 0) == -1 || pwrite(pub, text, (size_t)n, 0) != n ||
		    fsync(pub) == -1)
			log_warn("keyd/" AUDIT_STATE_PUBLIC);
	close(pub);
}

void
audit_use(int state, int pub)
{
	uint8_t *file = OPENSSL_secure_malloc(AUDIT_STATE_SIZE + 1);
	struct audit_state_head *head = OPENSSL_secure_malloc(sizeof(*head));
	size_t len = sizeof(public);
	ssize_t n;

	fd = state;
	if (file == NULL || head == NULL)
		fatalx("out of memory");
	if ((n = pread(fd, file, AUDIT_STATE_SIZE + 1, 0)) == -1)
		fatal("the state of the audit log");
	switch (audit_state_read(file, (size_t)n, head, &slot, &which)) {
	case AUDIT_STATE_EMPTY:
		make(head);
		break;
	case AUDIT_STATE_DAMAGED:
		fatal_config("the file keyd/" AUDIT_STATE_FILE
			     " in the data directory is damaged: put it back, or see what "
			     "docs/AUDIT-LOG.md says");
	case AUDIT_STATE_GOOD:
		break;
	}
	key = ed25519(head->seed);
	if (EVP_PKEY_get_raw_public_key(key, public, &len) != 1)
		fatalx("libcrypto has no public key");
	OPENSSL_secure_clear_free(file, AUDIT_STATE_SIZE + 1);
	OPENSSL_secure_clear_free(head, sizeof(*head));
	write_public(pub);
}

void
audit_last(struct m_k_last *last)
{
	last->seq = slot.seq;
	last->lost = slot.lost;
	memcpy(last->head, slot.head, sizeof(last->head));
	memcpy(last->key, public, sizeof(last->key));
}

static int
is_uuid(const char *s, size_t size)
{
	size_t n = strnlen(s, size);

	return n == AUDIT_INSTANCE_LEN && strspn(s, "0123456789abcdef-") == n;
}

/* Forward only; the same line again is nothing new. */
static int
goes_back(const struct m_k_checkpoint *c)
{
	return c->seq < slot.seq || c->seq == 0 || c->seq > INT64_MAX ||
	       (c->seq == slot.seq && memcmp(c->head, slot.head, sizeof(c->head)) != 0);
}

static int
too_many(void)
{
	static int64_t second;
	static unsigned count;
	int64_t now = time_boot_us() / 1000000;

	if (now != second)
		count = 0;
	second = now;
	return ++count > A_SECOND;
}

/* What it will never take back is in the file before the signature leaves. */
void
audit_checkpoint(const struct m_k_checkpoint *c, struct m_k_checkpointed *a)
{
	char text[AUDIT_SIGNED_MAX], head[AUDIT_HASH_TEXT];
	struct audit_slot next = slot;
	size_t n;

	memset(a, 0, sizeof(*a));
	if (!is_uuid(c->instance, sizeof(c->instance)))
		fatalx("managerd sent an instance that is none");
	a->status = goes_back(c) ? CHECKPOINT_BACK : too_many() ? CHECKPOINT_BUSY : CHECKPOINT_OK;
	if (a->status == CHECKPOINT_BACK)
		log_warnx("managerd asks for a signature of line %llu of the audit log, behind "
			  "line %llu",
		    (unsigned long long)c->seq, (unsigned long long)slot.seq);
	if (a->status != CHECKPOINT_OK)
		return;
	next.seq = c->seq;
	memcpy(next.head, c->head, sizeof(next.head));
	a->at_us = time_wall_us();
	hex_encode(c->head, sizeof(c->head), head);
	n = audit_signed_text(text, c->instance, c->seq, head, a->at_us);
	if (slot_write(&next, 1) == -1 || sign(key, text, n, a->signature) == -1) {
		memset(a->signature, 0, sizeof(a->signature));
		a->status = CHECKPOINT_FAILED;
		return;
	}
	memcpy(a->key, public, sizeof(a->key));
}

void
audit_lost(uint64_t lost)
{
	struct audit_slot next = slot;

	if (lost == slot.lost)
		return;
	next.lost = lost;
	slot_write(&next, 0);
}
