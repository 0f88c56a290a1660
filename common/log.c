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
static int log_json;
static const char *log_id; /* of the request that it is about; NULL: none */

#define REQUEST_ID_ROOM 400 /* of an id of 64 characters that all have to be escaped */

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

void
log_set_json(int on)
{
	log_json = on;
}

const char *
log_request(const char *id)
{
	const char *before = log_id;

	log_id = id;
	return before;
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

/* How many bytes the character of UTF-8 takes that begins here; 0: none does. */
static size_t
utf8_length(const unsigned char *s)
{
	size_t n = *s < 0x80   ? 1
		   : *s < 0xc2 ? 0
		   : *s < 0xe0 ? 2
		   : *s < 0xf0 ? 3
		   : *s < 0xf5 ? 4
			       : 0;
	size_t i;

	for (i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than needed, a half of a pair, beyond the last. */
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

/* Appends text as the inside of a JSON string, as far as it fits before end. */
static void
append_json(char *line, size_t *at, size_t end, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	char one[8];
	size_t n, took;

	for (; *s != '\0'; s += took) {
		took = utf8_length(s);
		if (took == 0) {
			took = 1;
			n = (size_t)snprintf(one, sizeof(one), "\\ufffd");
		} else if (is_control(s))
			n = (size_t)snprintf(one, sizeof(one), "\\u%04x", s[took - 1]);
		else if (*s == '"' || *s == '\\')
			n = (size_t)snprintf(one, sizeof(one), "\\%c", *s);
		else {
			memcpy(one, s, took);
			n = took;
		}
		if (*at + n > end)
			return;
		memcpy(line + *at, one, n);
		*at += n;
	}
}

static size_t
line_json(char *line, const char *when, const char *level, const char *text)
{
	static const char tail[] = "\"}";
	size_t end = LOG_LINE_MAX - sizeof(tail) - 1, at;

	at = (size_t)snprintf(line, LOG_LINE_MAX,
	    "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%.64s\",\"pid\":%d,\"", when, level,
	    log_name, (int)getpid());
	if (log_id != NULL) {
		at += (size_t)snprintf(line + at, LOG_LINE_MAX - at, "request_id\":\"");
		append_json(line, &at, at + REQUEST_ID_ROOM, log_id);
		at += (size_t)snprintf(line + at, LOG_LINE_MAX - at, "\",\"");
	}
	at += (size_t)snprintf(line + at, LOG_LINE_MAX - at, "message\":\"");
	append_json(line, &at, end, text);
	memcpy(line + at, tail, sizeof(tail) - 1);
	return at + sizeof(tail) - 1;
}

static size_t
line_text(char *line, const char *when, const char *level, const char *text)
{
	char head[256];
	size_t at = 0;

	snprintf(head, sizeof(head), "%s %.64s[%d]: %s: ", when, log_name, (int)getpid(), level);
	append(line, &at, head);
	if (log_id != NULL) {
		append(line, &at, log_id);
		append(line, &at, ": ");
	}
	append(line, &at, text);
	return at;
}

/* error: an errno whose text is appended, or 0. */
static void
emit(const char *level, int error, const char *fmt, va_list ap)
{
	char line[LOG_LINE_MAX], text[LOG_LINE_MAX], when[TIME_TEXT_MAX];
	int saved = errno;
	size_t n;

	if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
		strcpy(text, "(message that cannot be formatted)");
	n = strlen(text);
	if (error != 0)
		snprintf(text + n, sizeof(text) - n, ": %s", strerror(error));
	time_text(when, time_wall_us());
	n = log_json ? line_json(line, when, level, text) : line_text(line, when, level, text);
	line[n++] = '\n';
	if (write(STDERR_FILENO, line, n) == -1) {
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
