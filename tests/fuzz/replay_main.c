/*
 * Runs a fuzz target over files and folders of inputs, without libFuzzer: how "make test" replays
 * the corpora.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static int ninputs;

static void
replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;

	if (f == NULL || fstat(fileno(f), &st) == -1)
		err(1, "%s", path);
	/* The exact size, so that a sanitizer sees a read past the end. */
	data = malloc(st.st_size > 0 ? st.st_size : 1);
	if (data == NULL)
		err(1, "malloc");
	if (fread(data, 1, st.st_size, f) != (size_t)st.st_size)
		errx(1, "%s: short read", path);
	fclose(f);
	LLVMFuzzerTestOneInput(data, st.st_size);
	free(data);
	ninputs++;
}

static void
replay(const char *path)
{
	struct dirent *e;
	char child[4096];
	DIR *d = opendir(path);

	if (d == NULL && errno == ENOTDIR) {
		replay_file(path);
		return;
	}
	if (d == NULL)
		err(1, "%s", path);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(child, sizeof(child), "%s/%s", path, e->d_name);
		replay(child);
	}
	closedir(d);
}

int
main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	printf("%d inputs\n", ninputs);
	return ninputs > 0 ? 0 : 1;
}
