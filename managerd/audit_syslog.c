/* Sends audit lines to syslog, see audit_syslog.h. */
#include "managerd/audit_syslog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/audit_line.h"
#include "common/ids.h"
#include "common/log.h"

#define PRIORITY (10 * 8 + 6) /* authpriv, info */
#define HEAD_MAX 64
#define AGAIN_US 10000000
#define EARLY_MAX 32768

static void (*ask_for)(void);
static int sock = -1;
static int64_t asked_us;
static uint64_t lost;
/* Lines of the start, before the first answer, each with its newline. */
static char early[EARLY_MAX];
static size_t early_len;
static int answered;

/* As syslog(3) writes it. */
static void
send_line(const char *line, size_t len)
{
	char text[HEAD_MAX + AUDIT_LINE_MAX], when[32];
	time_t now = time(NULL);
	struct tm tm;
	size_t n;

	localtime_r(&now, &tm);
	strftime(when, sizeof(when), "%b %e %H:%M:%S", &tm);
	n = (size_t)snprintf(
	    text, HEAD_MAX, "<%d>%s agent-sandbox[%d]: ", PRIORITY, when, (int)getpid());
	memcpy(text + n, line, len);
	if (send(sock, text, n + len, MSG_DONTWAIT | MSG_NOSIGNAL) != -1)
		return;
	lost++;
	if (errno == EAGAIN || errno == ENOBUFS || errno == EMSGSIZE)
		return;
	log_warn("syslog takes no more lines of the audit log");
	close(sock);
	sock = -1;
}

static void
ask_again(void)
{
	if (asked_us != 0 && time_boot_us() - asked_us < AGAIN_US)
		return;
	asked_us = time_boot_us();
	ask_for();
}

void
audit_syslog_open(void (*ask)(void))
{
	ask_for = ask;
	if (ask != NULL)
		ask_again();
}

void
audit_syslog_use(int fd)
{
	const char *stop;

	if (sock != -1)
		close(sock);
	sock = fd;
	if (!answered && fd == -1)
		log_warnx("there is no syslog at /dev/log; the audit log is not copied until there "
			  "is");
	answered = 1;
	for (size_t at = 0; at < early_len; at = (size_t)(stop - early) + 1) {
		stop = memchr(early + at, '\n', early_len - at);
		if (sock != -1)
			send_line(early + at, (size_t)(stop - early) - at);
		else
			lost++;
	}
	early_len = 0;
}

void
audit_syslog_copy(const char *line, size_t len)
{
	if (ask_for == NULL)
		return;
	if (sock != -1) {
		send_line(line, len);
		return;
	}
	ask_again();
	if (!answered && early_len + len + 1 <= sizeof(early)) {
		memcpy(early + early_len, line, len);
		early[early_len + len] = '\n';
		early_len += len + 1;
	} else
		lost++;
}

uint64_t
audit_syslog_lost(void)
{
	return lost;
}
