/*
 * Log lines on standard error: "<time> <program>[<pid>]: <level>: text". One write(2) a line, never
 * more than LOG_LINE_MAX bytes; control bytes in arguments are shown as \xNN, so that nobody can
 * forge a line. Or as JSON, one object a line: then any bytes in an argument make valid JSON still,
 * what is no UTF-8 as U+FFFD. All functions keep errno.
 */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdarg.h>

#define LOG_LINE_MAX 2048

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* name is kept, not copied. Calls tzset(3), so that no file is opened later. */
void log_init(const char *name, enum log_level level);
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_set_json(int);
/* What follows is about the request with this id (kept, not copied), which lines then carry; NULL:
 * about none. Returns what was set before, so that whoever sets it can put that back. */
const char *log_request(const char *id);

/* With strerror(errno) appended. */
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warnx(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Log and exit with status 1. fatal() appends strerror(errno). */
void fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void fatalx(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/*
 * The operator must change something before a start can work (a policy, a file, the engine): log
 * one line and exit with EXIT_CONFIG. The parent then does not restart the program but ends with
 * the same status.
 */
#define EXIT_CONFIG 2
void fatal_config(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
