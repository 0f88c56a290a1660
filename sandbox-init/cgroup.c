/* The oom_kill count, in memory.events (version 2) or memory.oom_control (version 1). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-init/cgroup.h"

static int count_fd = -1;

void
cgroup_init(void)
{
	static const char *const files[] = {
	    "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"};
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(files[0]) && count_fd < 0; i++)
		count_fd = open(files[i], O_RDONLY | O_CLOEXEC);
}

int64_t
cgroup_parse(const char *text)
{
	const char *line;

	for (line = text; line != NULL; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, "oom_kill ", 9) == 0)
			return strtoll(line + 9, NULL, 10);
	}
	return 0;
}

int64_t
cgroup_oom_kills(void)
{
	char text[512];
	ssize_t n;

	if (count_fd < 0)
		return 0;
	n = pread(count_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return cgroup_parse(text);
}
