/* The line that shows how far a copy is. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/show.h"

#define EVERY_NS 100000000
#define BAR 24

static struct {
	char name[128];
	int64_t total, done;
	int64_t started, shown; /* CLOCK_MONOTONIC, ns */
	int on, drawn;
} progress;

static int64_t
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void
progress_start(const char *name, int64_t total)
{
	progress.on = isatty(STDERR_FILENO) && !cp_options.quiet;
	show_line(name, progress.name, sizeof(progress.name));
	progress.total = total;
	progress.started = progress.shown = now();
}

void
progress_total(int64_t total)
{
	progress.total = total;
}

static int64_t
rate(int64_t at)
{
	double seconds = (double)(at - progress.started) / 1e9;

	return (int64_t)((double)progress.done / (seconds > 0.001 ? seconds : 0.001));
}

static void
draw(int64_t at)
{
	char done[SHOW_SIZE_MAX], each[SHOW_SIZE_MAX], left[SHOW_TIME_MAX], bar[BAR + 1];
	int64_t speed = rate(at);

	show_size(done, progress.done);
	show_size(each, speed);
	progress.drawn = 1;
	if (progress.total <= 0) {
		fprintf(stderr, "\r%s  %s  %s/s\x1b[K", progress.name, done, each);
		return;
	}
	for (int i = 0; i < BAR; i++)
		bar[i] = progress.done * BAR >= progress.total * (i + 1) ? '#' : '-';
	bar[BAR] = '\0';
	show_duration(left, speed > 0 ? (progress.total - progress.done) / speed : 0);
	fprintf(stderr, "\r%s  [%s] %3d %%  %s  %s/s  %s\x1b[K", progress.name, bar,
	    progress.done >= progress.total ? 100 : (int)(progress.done * 100 / progress.total),
	    done, each, left);
}

void
progress_add(int64_t bytes)
{
	int64_t at;

	progress.done += bytes;
	if (!progress.on)
		return;
	at = now();
	if (at - progress.shown < EVERY_NS)
		return;
	progress.shown = at;
	draw(at);
}

void
progress_clear(void)
{
	if (progress.drawn)
		fprintf(stderr, "\r\x1b[K");
	progress.drawn = 0;
}

void
progress_end(const struct copied *c)
{
	char size[SHOW_SIZE_MAX], each[SHOW_SIZE_MAX];

	progress_clear();
	if (progress.on)
		fprintf(stderr, "%s  %s in %lld file%s  %s/s\n", progress.name,
		    show_size(size, c->bytes), (long long)c->files, c->files == 1 ? "" : "s",
		    show_size(each, rate(now())));
}
