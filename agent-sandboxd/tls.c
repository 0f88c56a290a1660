/*
 * Certificates and their keys: the parent opens the files, and never reads them. keyd gets the keys
 * and says whether they are good; then apid gets the certificates and says whether it uses them.
 * When any of it fails at the start, that is a wrong configuration; at SIGHUP what is in use stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandboxd/parent.h"
#include "common/items.h"
#include "common/log.h"

#define WHY_MAX (PARENT_PATH_MAX + 256)
#define NONE 255              /* about no file in particular */
#define ANSWER_MS (20 * 1000) /* for reading some files */

static void
ask(struct parent *p, enum program_index who)
{
	p->tls.asked = &p->prog[who];
	p->tls.asked_ms = now_ms();
}

static void
close_files(struct tls *t)
{
	for (int i = 0; i < TLS_FILES_MAX; i++) {
		if (t->certs[i] != -1)
			close(t->certs[i]);
		t->certs[i] = -1;
	}
	if (t->client_ca != -1)
		close(t->client_ca);
	t->client_ca = -1;
}

/* The n-th path of a list, with an end. Returns -1 when there is none, or it is too long. */
static int
nth(const char *list, uint32_t n, char *path, size_t size)
{
	const char *item;
	size_t len;

	while ((item = items_next(&list, &len)) != NULL)
		if (n-- == 0)
			return (size_t)snprintf(path, size, "%.*s", (int)len, item) < size ? 0 : -1;
	return -1;
}

/* One file. secret: nobody but its owner and group may read it. -1: why says what is wrong. */
static int
open_file(const char *name, const char *list, uint32_t n, int secret, char *why)
{
	char path[PARENT_PATH_MAX] = "";
	struct stat st;
	int fd = -1;

	if (nth(list, n, path, sizeof(path)) == -1)
		errno = ENAMETOOLONG;
	else
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd == -1 || fstat(fd, &st) == -1)
		snprintf(why, WHY_MAX, "%s: %s: %s", name, path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		snprintf(why, WHY_MAX, "%s: %s is not a regular file", name, path);
	else if (secret && (st.st_mode & S_IRWXO) != 0)
		snprintf(why, WHY_MAX, "%s: %s may be read by everybody: chmod o= it", name, path);
	else
		return fd;
	if (fd != -1)
		close(fd);
	return -1;
}

/* Opens all, then hands the keys to keyd: nothing is sent when a file is missing. */
static int
begin(struct parent *p, char *why)
{
	const struct config *c = &p->set.c;
	struct tls *t = &p->tls;
	struct m_keyfile m = {.generation = t->generation + 1, .count = t->count};
	int keys[TLS_FILES_MAX];
	uint32_t n;
	int bad = 0;

	for (n = 0; n < t->count && !bad; n++) {
		keys[n] = open_file("AGENT_SANDBOX_TLS_KEY", c->str[CFG_TLS_KEY], n, 1, why);
		if (keys[n] == -1)
			break;
		t->certs[n] = open_file("AGENT_SANDBOX_TLS_CERT", c->str[CFG_TLS_CERT], n, 0, why);
		bad = t->certs[n] == -1;
	}
	bad |= n < t->count;
	if (!bad && *c->str[CFG_TLS_CLIENT_CA] != '\0') {
		t->client_ca =
		    open_file("AGENT_SANDBOX_TLS_CLIENT_CA", c->str[CFG_TLS_CLIENT_CA], 0, 0, why);
		bad = t->client_ca == -1;
	}
	if (bad) {
		while (n > 0)
			close(keys[--n]);
		close_files(t);
		return -1;
	}
	t->generation++;
	ask(p, PROG_KEYD);
	for (m.index = 0; m.index < t->count; m.index++)
		send_P_KEYFILE(p->prog[PROG_KEYD].chan, 0, &m, NULL, 0, keys[m.index]);
	return 0;
}

void
tls_start(struct parent *p)
{
	struct tls *t = &p->tls;
	const char *list = p->set.c.str[CFG_TLS_CERT];
	char why[WHY_MAX];
	size_t len;

	memset(t, 0, sizeof(*t));
	memset(t->certs, -1, sizeof(t->certs));
	t->client_ca = -1;
	while (items_next(&list, &len) != NULL)
		t->count++;
	if (t->count > 0 && begin(p, why) == -1)
		fatal_config("%s", why);
}

void
tls_reload(struct parent *p)
{
	char why[WHY_MAX];

	if (p->tls.count == 0 || p->prog[PROG_KEYD].chan == NULL)
		return; /* without keyd all begins anew anyway */
	if (p->tls.asked != NULL)
		p->tls.again = 1;
	else if (begin(p, why) == -1) {
		log_warnx("SIGHUP: %s; the certificates in use stay", why);
		audit_note(p, NOTE_KEPT, 0, "certificates", why);
	}
}

static void
over(struct parent *p)
{
	p->tls.asked = NULL;
	close_files(&p->tls);
	if (p->tls.again) {
		p->tls.again = 0;
		tls_reload(p);
	}
}

/* "SETTING: path: why", as of a file that could not be opened. */
static void
failed(struct parent *p, enum program_index by, const struct m_tls_done *done, const char *why)
{
	const struct m_keyfile m = {.generation = done->generation};
	const char *name = by == PROG_KEYD ? "AGENT_SANDBOX_TLS_KEY" : "AGENT_SANDBOX_TLS_CERT";
	const char *list = p->set.c.str[by == PROG_KEYD ? CFG_TLS_KEY : CFG_TLS_CERT];
	char path[PARENT_PATH_MAX] = "";

	if (by == PROG_APID && done->index == NONE) {
		name = "AGENT_SANDBOX_TLS_CLIENT_CA";
		list = p->set.c.str[CFG_TLS_CLIENT_CA];
	}
	nth(list, done->index == NONE ? 0 : done->index, path, sizeof(path));
	if (!p->listening) {
		log_warnx("%s: %s: %s", name, path, why);
		p->outcome = MISCONFIGURED;
		return;
	}
	log_warnx("SIGHUP: %s: %s: %s; the certificates in use stay", name, path, why);
	audit_note(p, NOTE_KEPT, 0, "certificates", why);
	if (p->prog[PROG_KEYD].chan != NULL)
		send_P_FORGET(p->prog[PROG_KEYD].chan, 0, &m, NULL, 0, -1);
	over(p);
}

/* keyd has the keys: now the certificates. */
static void
hand_on(struct parent *p)
{
	struct tls *t = &p->tls;
	struct chan *apid = p->prog[PROG_APID].chan;
	struct m_keyfile m = {.generation = t->generation, .count = t->count};

	if (apid == NULL)
		return; /* it has died, and all begins anew */
	ask(p, PROG_APID);
	for (m.index = 0; m.index < t->count; m.index++) {
		send_P_CERT(apid, 0, &m, NULL, 0, t->certs[m.index]);
		t->certs[m.index] = -1;
	}
	m.index = 0;
	if (t->client_ca != -1)
		send_P_CLIENT_CA(apid, 0, &m, NULL, 0, t->client_ca);
	t->client_ca = -1;
	send_P_TLS(apid, 0, &m, NULL, 0, -1);
}

void
tls_answer(struct process *proc, struct msg *m)
{
	struct parent *p = proc->parent;
	const struct m_tls_done *done = m->payload;

	if (proc != p->tls.asked || done->generation != p->tls.generation)
		watch_breach(proc->chan, "an answer that nobody waits for");
	else if (done->failed)
		failed(p, proc->kind, done, m->tail);
	else if (proc->kind == PROG_KEYD)
		hand_on(p);
	else {
		if (p->listening) {
			log_info("SIGHUP: %u certificates were read again", p->tls.count);
			audit_note(p, NOTE_RELOADED, 0, "certificates", NULL);
		}
		over(p);
	}
}

void
tls_overdue(struct parent *p)
{
	const struct process *who = p->tls.asked;

	if (who == NULL || now_ms() - p->tls.asked_ms < ANSWER_MS)
		return;
	log_warnx("%s[%d] does not answer after %d s", program_names[who->kind], who->pid,
	    ANSWER_MS / 1000);
	p->outcome = DIED;
}
