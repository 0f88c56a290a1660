/* Log lines on standard error, each one write(2); see log.h. */
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/ids.h"

static const char *log_name = "agent-sandbox";
static enum log_level log_level = LOG_LEVEL_INFO;

void
log_init(const char *name, enum log_level level)
{
	log_name = name;
	log_level = level;
	tzset();
}

void
log_set_level(enum log_level level)
{
	log_level = level;
}

enum log_level
log_get_level(void)
{
	return log_level;
}

/* C0 controls, DEL, and the UTF-8 form of the C1 controls, which terminals obey too. */
static int
is_control(const unsigned char *s)
{
	if (*s < 0x20 || *s == 0x7f)
		return 1;
	return s[0] == 0xc2 && s[1] >= 0x80 && s[1] <= 0x9f;
}

/* Appends text to line at *at, control bytes as \xNN; one byte is left for the newline. */
static void
append(char *line, size_t *at, const char *text)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *s = (const unsigned char *)text;

	for (; *s != '\0'; s++) {
		if (is_control(s)) {
			if (*at + 4 >= LOG_LINE_MAX)
				return;
			line[(*at)++] = '\\';
			line[(*at)++] = 'x';
			line[(*at)++] = digits[*s >> 4];
			line[(*at)++] = digits[*s & 15];
		} else {
			if (*at + 1 >= LOG_LINE_MAX)
				return;
			line[(*at)++] = (char)*s;
		}
	}
}

/* error: an errno whose text is appended, or 0. */
static void
emit(const char *level, int error, const char *fmt, va_list ap)
{
	char line[LOG_LINE_MAX], text[LOG_LINE_MAX], when[TIME_TEXT_MAX];
	size_t at = 0;
	int saved = errno;

	snprintf(text, sizeof(text), "%s %s[%d]: %s: ", time_text(when, time_wall_us()), log_name,
	    (int)getpid(), level);
	append(line, &at, text);
	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		strcpy(text, "(message that cannot be formatted)");
	append(line, &at, text);
	if (error != 0) {
		append(line, &at, ": ");
		append(line, &at, strerror(error));
	}
	line[at++] = '\n';
	if (write(STDERR_FILENO, line, at) == -1) {
		/* There is nowhere to say so. */
	}
	errno = saved;
}

void
log_warn(const char *fmt, ...)
{
	va_list ap;

	if (log_level < LOG_LEVEL_WARN)
		return;
	va_start(ap, fmt);
	emit("warning", errno, fmt, ap);
	va_end(ap);
}

void
log_warnx(const char *fmt, ...)
{
	va_list ap;

	if (log_level < LOG_LEVEL_WARN)
		return;
	va_start(ap, fmt);
	emit("warning", 0, fmt, ap);
	va_end(ap);
}

void
log_info(const char *fmt, ...)
{
	va_list ap;

	if (log_level < LOG_LEVEL_INFO)
		return;
	va_start(ap, fmt);
	emit("info", 0, fmt, ap);
	va_end(ap);
}

void
log_debug(const char *fmt, ...)
{
	va_list ap;

	if (log_level < LOG_LEVEL_DEBUG)
		return;
	va_start(ap, fmt);
	emit("debug", 0, fmt, ap);
	va_end(ap);
}

void
fatal(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit("fatal", errno, fmt, ap);
	va_end(ap);
	exit(1);
}

void
fatalx(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit("fatal", 0, fmt, ap);
	va_end(ap);
	exit(1);
}

void
fatal_config(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	emit("fatal", 0, fmt, ap);
	va_end(ap);
	exit(EXIT_CONFIG);
}
