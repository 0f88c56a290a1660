/* Copies of audit lines for syslog, by a socket that the parent connects. What is not taken at once
 * is lost there, and counted. */
#ifndef MANAGERD_AUDIT_SYSLOG_H
#define MANAGERD_AUDIT_SYSLOG_H

#include <stddef.h>
#include <stdint.h>

/* ask: for a socket, of whoever has them. NULL: no copies. */
void audit_syslog_open(void (*ask)(void));
/* The answer; -1: there is no syslog now. */
void audit_syslog_use(int fd);
void audit_syslog_copy(const char *line, size_t len);
uint64_t audit_syslog_lost(void);

#endif
