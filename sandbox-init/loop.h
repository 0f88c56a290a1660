/* The one poll loop of sandbox-init: watched descriptors and timers. Nothing in it ever blocks
 * elsewhere. */
#ifndef SANDBOX_INIT_LOOP_H
#define SANDBOX_INIT_LOOP_H

#include <stdint.h>

struct watch {
	int fd;
	short events;    /* 0: not polled at all, since poll(2) would report a hang-up for ever */
	uint8_t outward; /* polled only while the stream has room for data */
	void (*fn)(void *arg, short revents);
	void *arg;
};

/* Begins to watch fd (events 0). The struct belongs to the caller and must stay until
 * loop_unwatch(). */
void loop_watch(struct watch *, int fd, void (*fn)(void *, short), void *arg);
/* Allowed at any time, also in callbacks; twice does no harm. The fd stays open. */
void loop_unwatch(struct watch *);

struct timer {
	int64_t at; /* 0: not set */
	void (*fn)(void *arg);
	void *arg;
};

/* One shot, at loop_now() time in microseconds. Set again, it moves. */
void timer_set(struct timer *, int64_t at, void (*fn)(void *), void *arg);
void timer_clear(struct timer *);

/* CLOCK_MONOTONIC in microseconds. */
int64_t loop_now(void);

struct loop_hooks {
	int (*pump)(void); /* moves data that needs no descriptor; 1: there is more to do at once */
	int (*flush)(void); /* before each poll; 1: has kept something back for the next turn */
	int (*room)(void);  /* may outward watches be polled */
};
void loop_run(const struct loop_hooks *) __attribute__((noreturn));

#endif
