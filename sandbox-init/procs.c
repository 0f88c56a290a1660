/* Reads /proc: every process with its parent and state. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/mem.h"
#include "sandbox-init/procs.h"

/* The name in parentheses may hold anything, also parentheses: the last one counts. */
int
procs_parse_stat(const char *text, char *state, pid_t *ppid)
{
	const char *p = strrchr(text, ')');
	char *end;

	if (p == NULL || p[1] != ' ' || p[2] == '\0' || p[3] != ' ')
		return -1;
	*state = p[2];
	*ppid = (pid_t)strtol(p + 4, &end, 10);
	return end == p + 4 ? -1 : 0;
}

static int
read_stat(const char *path, char *state, pid_t *ppid)
{
	char text[512];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	return procs_parse_stat(text, state, ppid);
}

int
procs_list(struct proc **list, size_t *count)
{
	struct proc *l = NULL, p = {0};
	struct dirent *d;
	char path[64];
	size_t n = 0, cap = 0;
	DIR *dir = opendir("/proc");

	if (dir == NULL)
		return -1;
	while ((d = readdir(dir)) != NULL) {
		p.pid = (pid_t)strtol(d->d_name, NULL, 10);
		if (p.pid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/stat", (int)p.pid);
		if (read_stat(path, &p.state, &p.ppid) < 0)
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 64;
			l = mem_resize(l, cap * sizeof(*l));
		}
		l[n++] = p;
	}
	closedir(dir);
	*list = l;
	*count = n;
	return 0;
}

static int
by_pid(const void *a, const void *b)
{
	const struct proc *p = a, *q = b;

	return p->pid < q->pid ? -1 : p->pid > q->pid;
}

/* Parents mostly have the lower number, so that few rounds are needed. */
void
procs_mark_descendants(struct proc *l, size_t n, pid_t root)
{
	struct proc key = {0}, *parent;
	int changed = 1;
	size_t i;

	qsort(l, n, sizeof(*l), by_pid);
	while (changed) {
		changed = 0;
		for (i = 0; i < n; i++) {
			if (l[i].mark || l[i].pid == root)
				continue;
			key.pid = l[i].ppid;
			parent = bsearch(&key, l, n, sizeof(*l), by_pid);
			if (l[i].ppid == root || (parent != NULL && parent->mark))
				l[i].mark = changed = 1;
		}
	}
}

int
procs_stands_still(pid_t pid)
{
	struct dirent *d;
	char path[64 + 256], state;
	pid_t ppid;
	DIR *dir;
	int still = 1;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return errno == ENOENT;
	while (still && (d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", (int)pid, d->d_name);
		if (read_stat(path, &state, &ppid) < 0)
			continue;
		still = strchr("TtZXx", state) != NULL;
	}
	closedir(dir);
	return still;
}

/* The third number of schedstat; 0 where the kernel does not say. */
static uint64_t
read_runs(const char *path)
{
	unsigned long long ran, waited, runs = 0;
	char text[128];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%llu %llu %llu", &ran, &waited, &runs) == 3 ? runs : 0;
}

uint64_t
procs_runs(pid_t pid)
{
	struct dirent *d;
	char path[64 + 256];
	uint64_t runs = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (dir == NULL)
		return 0;
	while ((d = readdir(dir)) != NULL) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)pid, d->d_name);
		runs += read_runs(path);
	}
	closedir(dir);
	return runs;
}
