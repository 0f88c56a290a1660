/* Collects the configuration from the environment and a file, then checks it. The parsing is in
 * parse.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <bsd/string.h>

#include "config/settings.h"

#define CONFIG_FILE_MAX (1024 * 1024)

extern char **environ;

static int
load_environment(struct settings *s, char *text, void (*on_warning)(const char *))
{
	char name[128]; /* what is longer is cut, and still none of ours */
	const char *eq;
	int r;

	for (char **e = environ; *e != NULL; e++) {
		if ((eq = strchr(*e, '=')) == NULL)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)(eq - *e), *e);
		if ((r = config_put(s, FROM_ENV, name, eq + 1, text)) == -1)
			return -1;
		if (r == 1)
			on_warning(text);
	}
	return 0;
}

static int
load_file(struct settings *s, const char *path, char *text, void (*on_warning)(const char *))
{
	static char buf[CONFIG_FILE_MAX + 1];
	char why[CONFIG_ERROR_MAX];
	struct stat st;
	ssize_t n;
	size_t len = 0;
	int r, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd == -1) {
		snprintf(text, CONFIG_ERROR_MAX, "%.200s: %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		st.st_size = CONFIG_FILE_MAX;
	else
		while (
		    len < CONFIG_FILE_MAX && (n = read(fd, buf + len, CONFIG_FILE_MAX - len)) > 0)
			len += n;
	close(fd);
	buf[len] = '\0';
	if (st.st_size >= CONFIG_FILE_MAX || strlen(buf) != len) {
		snprintf(text, CONFIG_ERROR_MAX, "%.200s: is no text file, or too large", path);
		return -1;
	}
	r = config_put_lines(s, buf, why, on_warning);
	explicit_bzero(buf, len);
	if (r == -1) {
		snprintf(text, CONFIG_ERROR_MAX, "%.200s: %.300s", path, why);
		return -1;
	}
	if (s->from[CFG_API_KEYS] == FROM_FILE && (st.st_mode & 077) != 0) {
		snprintf(text, CONFIG_ERROR_MAX,
		    "%.200s holds keys and can be read by others: chmod 600", path);
		on_warning(text);
	}
	return 0;
}

int
config_load(struct settings *s, const char *file, char *text, void (*on_warning)(const char *))
{
	if (load_environment(s, text, on_warning) == -1)
		return -1;
	if (file != NULL && load_file(s, file, text, on_warning) == -1)
		return -1;
	return config_check(s, text);
}
