/* Reads keyd's state of the audit log and public keys (audit_keyd.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/audit.h"
#include "agent-sandbox/audit_keyd.h"
#include "agent-sandbox/client.h"
#include "agent-sandbox/data_file.h"
#include "agent-sandbox/verb.h"
#include "common/audit_state.h"
#include "common/ids.h"

/* Of keyd's folder, which is root's if it is there. -1: it cannot be read. */
static ssize_t
slurp(const char *folder, const char *name, void *buf, size_t size)
{
	char path[2048];
	ssize_t n;
	int dir;

	snprintf(path, sizeof(path), "%s/" AUDIT_STATE_DIR, folder);
	if ((dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) == -1)
		return -1;
	n = data_file_read(dir, name, O_NOFOLLOW, buf, size);
	if (n == -1 && errno == ELOOP)
		client_failx(EXIT_REFUSED, "%s/%s: %s", path, name, data_file_error());
	close(dir);
	return n;
}

void
audit_keyd_read(struct audit_keyd *k, const char *folder)
{
	uint8_t file[AUDIT_STATE_SIZE + 1];
	struct audit_state_head head;
	struct audit_slot slot;
	ssize_t n;
	int which;

	memset(k, 0, sizeof(*k));
	if (folder == NULL)
		return;
	if ((n = slurp(folder, AUDIT_STATE_FILE, file, sizeof(file))) == -1)
		return;
	switch (audit_state_read(file, (size_t)n, &head, &slot, &which)) {
	case AUDIT_STATE_GOOD:
		k->known = 1;
		k->seq = slot.seq;
		hex_encode(slot.head, sizeof(slot.head), k->head);
		break;
	case AUDIT_STATE_DAMAGED:
		client_failx(EXIT_REFUSED,
		    "%s/" AUDIT_STATE_DIR "/" AUDIT_STATE_FILE ": it is damaged", folder);
	case AUDIT_STATE_EMPTY:
		break;
	}
	explicit_bzero(&head, sizeof(head));
	explicit_bzero(file, sizeof(file));
}

/* A key in hex with perhaps a newline behind. */
static int
parse(const char *text, uint8_t key[32])
{
	char hex[65];
	size_t n = strcspn(text, "\n");

	if (n != sizeof(hex) - 1 || (text[n] == '\n' && text[n + 1] != '\0'))
		return -1;
	memcpy(hex, text, n);
	hex[n] = '\0';
	return hex_decode(hex, key, 32);
}

/* What is no key in hex is a file. */
static void
given(struct chain *c, const char *word)
{
	char text[128] = "";

	if (c->nkeys == CHAIN_KEY_MAX)
		options_wrong(&usage_audit, "--key: at most %d", CHAIN_KEY_MAX);
	if (parse(word, c->keys[c->nkeys]) == -1) {
		if (data_file_read(AT_FDCWD, word, 0, text, sizeof(text) - 1) == -1)
			options_wrong(&usage_audit, "--key: %s: %s", word, data_file_error());
		if (parse(text, c->keys[c->nkeys]) == -1)
			options_wrong(&usage_audit, "--key: %s: 64 hex digits are wanted", word);
	}
	c->nkeys++;
}

void
audit_keyd_keys(struct chain *c, const char *folder)
{
	char text[128] = "";

	for (size_t i = 0; i < audit_options.keys.n; i++)
		given(c, audit_options.keys.v[i]);
	if (c->nkeys > 0 || folder == NULL)
		return;
	if (slurp(folder, AUDIT_STATE_PUBLIC, text, sizeof(text) - 1) != -1 &&
	    parse(text, c->keys[0]) == 0)
		c->nkeys = 1;
}
