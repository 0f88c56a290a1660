/* agent-sandbox openapi: writes the description of the API, which is part of this program. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/verb.h"
#include "common/embed.h"

EMBED(embed_openapi, OPENAPI_PATH);

static struct {
	const char *output;
} options;

static const struct option_row rows[] = {
    {"output", 'o', OPTION_TEXT, &options.output, "FILE", "write to this file instead"},
    {0},
};

const struct usage usage_openapi = {"openapi", "",
    "Prints the description of the server's API, an OpenAPI 3.1 document.", rows, 0, 0, 0, NULL, 1};

static int
write_all(int fd)
{
	const char *p = embed_openapi, *end = p + embed_openapi_size;
	ssize_t n;

	for (; p < end; p += n) {
		if ((n = write(fd, p, (size_t)(end - p))) == -1) {
			if (errno != EINTR)
				return -1;
			n = 0;
		}
	}
	return 0;
}

/* What is there stays until the new file is complete. */
static int
replace_file(const char *path)
{
	mode_t mask = umask(0);
	char *temporary;
	int fd, error;

	umask(mask);
	if (asprintf(&temporary, "%s.XXXXXX", path) == -1)
		return -1;
	if ((fd = mkostemp(temporary, O_CLOEXEC)) == -1) {
		free(temporary);
		return -1;
	}
	if (write_all(fd) == 0 && fchmod(fd, 0666 & ~mask) == 0 && close(fd) == 0 &&
	    rename(temporary, path) == 0) {
		free(temporary);
		return 0;
	}
	error = errno;
	unlink(temporary);
	free(temporary);
	errno = error;
	return -1;
}

/* A pipe or a device is written to; a file is replaced. */
static int
write_to(const char *path)
{
	struct stat st;
	int fd, ok;

	if (stat(path, &st) == -1 || S_ISREG(st.st_mode))
		return replace_file(path);
	if ((fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)) == -1)
		return -1;
	ok = write_all(fd) == 0;
	return close(fd) == 0 && ok ? 0 : -1;
}

int
verb_openapi(int argc, char **argv)
{
	const char *to = NULL;
	int n;

	options_read(&usage_openapi, argc, argv, &n);
	if (options.output != NULL && strcmp(options.output, "-") != 0)
		to = options.output;
	if ((to != NULL ? write_to(to) : write_all(STDOUT_FILENO)) == 0)
		return 0;
	client_failx(EXIT_REFUSED, "%s: cannot be written: %s", to != NULL ? to : "standard output",
	    strerror(errno));
}
