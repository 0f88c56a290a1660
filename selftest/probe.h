/* What the files of the self-test's program share: how a check says what it found, and what it was
 * told from outside. */
#ifndef SELFTEST_PROBE_H
#define SELFTEST_PROBE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "selftest/checks.h"

#define TEXTS_MAX 64

struct texts {
	const char *v[TEXTS_MAX];
	size_t n;
};

/* From the command line. */
struct probe {
	unsigned mode;
	const char *target;    /* a name that is listed, and answers on ports 80 and 443; or NULL */
	const char *rebind;    /* a listed name whose answers are not public; or NULL */
	const char *neighbour; /* ADDRESS:PORT of another sandbox; or NULL */
	struct texts near;     /* ADDRESS:PORT that must not answer */
	struct texts own;      /* addresses of the server */
	struct texts only;     /* names of checks; none: all */
};
extern struct probe probe;

#define CHECK_DECLARE(name, modes, what) void check_##name(void);
CHECKS(CHECK_DECLARE)

/*
 * Each check says at least one of these. What is broken outweighs the rest and may be said several
 * times; what holds is the evidence, the last one said counts.
 */
void holds(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void skipped(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A system call that the filter must refuse: with EPERM, or ENOSYS where the kernel lacks it. */
void filtered(const char *what, long result);
/* One that must fail, whoever refuses it. */
void refused(const char *what, long result);

/* A small file's text, with a NUL; -1 and errno. */
ssize_t read_text(const char *path, char *buf, size_t size);

/* reach.c: TCP connections to "ADDRESS:PORT" or "[V6]:PORT"; to each of n, all at once. */
struct reach {
	char text[80];
	int fd;
	int error; /* 0: connected; ECONNREFUSED: it answered; ETIMEDOUT: nothing came back */
};
void reach_add(struct reach *, size_t *n, size_t max, const char *address, unsigned port);
void reach_all(struct reach *, size_t n, int ms);
int reach_one(const char *text, int ms); /* a descriptor, or -1 and errno */
/* The length of the socket address, 0 if text is none. */
socklen_t reach_parse(const char *text, struct sockaddr_storage *);

/* proxy.c: what a way out answered. */
struct answer {
	int status;      /* of HTTP, or SOCKS5's reply; -1: it was closed without one */
	int fd;          /* stays open after a yes; else -1 */
	char text[1024]; /* the body of a no */
};
/* CONNECT to host (any bytes) and port. */
void ask_connect(struct answer *, const char *host, size_t len, unsigned port);
/* Any request to the HTTP proxy, or whatever listens at where. */
void ask_http(struct answer *, const char *where, const char *request, size_t len);
/* SOCKS5 with this command and address type: 1: IPv4, 3: a name, 4: IPv6. */
void ask_socks(struct answer *, int command, int type, const void *host, size_t len, unsigned port);
void answer_close(struct answer *);
/* A host as it may be printed. */
const char *visible(const char *host, size_t len);

#endif
