/*
 * What keyd keeps of the audit log: its key and how far it has signed, in a folder of the data
 * directory that is ours alone, so that managerd can neither read nor replace it. It is made and
 * opened here; only keyd reads and writes it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent-sandboxd/parent.h"
#include "common/audit_state.h"
#include "common/log.h"

#define FOLDER "AGENT_SANDBOX_DATA_DIR: %s/" AUDIT_STATE_DIR

static int
own_folder(const char *data_dir)
{
	int top = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct stat st;

	if (top == -1 || (mkdirat(top, AUDIT_STATE_DIR, 0700) == -1 && errno != EEXIST) ||
	    (fd = openat(top, AUDIT_STATE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) ==
		-1 ||
	    fstat(fd, &st) == -1)
		fatal_config(FOLDER ": %s", data_dir, strerror(errno));
	if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
		fatal_config(FOLDER
		    " is not only its owner's, or not root's: see docs/AUDIT-LOG.md",
		    data_dir);
	fsync(top);
	close(top);
	return fd;
}

void
audit_send(struct parent *p)
{
	static const struct {
		const char *name;
		mode_t mode;
	} files[] = {{AUDIT_STATE_FILE, 0600}, {AUDIT_STATE_PUBLIC, 0644}};
	int dir = own_folder(p->data_dir), fd;
	struct stat st;

	for (uint32_t i = 0; i < 2; i++) {
		const struct m_audit_file m = {.index = i};

		fd = openat(dir, files[i].name,
		    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, files[i].mode);
		if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
		    fchmod(fd, files[i].mode) == -1)
			fatal_config(FOLDER "/%s: %s", p->data_dir, files[i].name,
			    fd == -1 ? strerror(errno) : "it is not a file");
		send_P_AUDIT(p->prog[PROG_KEYD].chan, 0, &m, NULL, 0, fd);
	}
	fsync(dir);
	close(dir);
}

void
audit_note(struct parent *p, enum note what, int status, const char *text, const char *why)
{
	const struct m_note m = {.what = what, .status = status};
	char tail[NOTE_TEXT_MAX];
	size_t n;

	if (p->prog[PROG_MANAGERD].chan == NULL)
		return;
	n = (size_t)snprintf(tail, sizeof(tail), "%s%c%.1400s", text, '\0', why != NULL ? why : "");
	send_P_NOTE(p->prog[PROG_MANAGERD].chan, 0, &m, tail, n, -1);
}

void
audit_syslog(struct parent *p)
{
	const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/dev/log"};
	const struct m_none none = {0};
	int fd = -1;

	if (p->set.c.num[CFG_AUDIT_SYSLOG])
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd != -1 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == -1) {
		close(fd);
		fd = -1;
	}
	send_P_SYSLOG(p->prog[PROG_MANAGERD].chan, 0, &none, NULL, 0, fd);
}
