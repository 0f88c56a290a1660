/* A file or folder from here into a sandbox. The server puts it in place when all of it is there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/cp/cp.h"
#include "common/log.h"

/* Is it a folder in the sandbox? Else it is a file, or not there (*there). */
static int
is_folder(const char *sandbox, const char *path, int *there)
{
	char *url = api_path("/v1/sandboxes/%s/files/list?path=%s", sandbox, path);
	struct api_call *c = api_call_new(client_server(), "GET", url);
	struct api_error e;
	int r = api_call_run(c, &e);

	if (r == -1 && e.status != 400 && e.status != 404)
		client_fail(&e);
	/* "sandbox sb_... not found" is not about the file. */
	if (r == -1 && e.status == 404 && strncmp(e.text, "sandbox ", 8) == 0)
		client_fail(&e);
	*there = r == 0 || e.status == 400;
	api_call_free(c);
	free(url);
	return r == 0;
}

static char *
last_name(const char *path)
{
	size_t n = strlen(path), begin;

	while (n > 0 && path[n - 1] == '/')
		n--;
	for (begin = n; begin > 0 && path[begin - 1] != '/'; begin--)
		;
	return strndup(path + begin, n - begin);
}

/* The last name of a path here; "." and ".." have one too. */
static char *
local_name(const char *local)
{
	char *name = last_name(local), *real;

	if (name != NULL && *name != '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		return name;
	free(name);
	if ((real = realpath(local, NULL)) == NULL)
		client_failx(EXIT_REFUSED, "%s: %s", local, strerror(errno));
	name = last_name(real);
	free(real);
	return name;
}

struct target {
	char *folder; /* in which it is unpacked */
	char *name;   /* of the top of the archive; "." is the folder itself */
};

/* As cp(1): into a folder that is there, else the path is the new name. */
static void
choose(
    const char *local, int local_is_folder, const char *sandbox, const char *path, struct target *t)
{
	size_t n = strlen(path), length = strlen(local);
	int there, folder;

	if (n == 0)
		path = "/workspace", n = 10;
	folder = is_folder(sandbox, path, &there);
	if (local_is_folder && length > 1 && strcmp(local + length - 2, "/.") == 0) {
		t->folder = strdup(path);
		t->name = strdup(".");
	} else if (folder || path[n - 1] == '/') {
		t->folder = strdup(path);
		t->name = local_name(local);
	} else {
		const char *slash = strrchr(path, '/');

		t->folder =
		    slash == NULL ? strdup("/workspace") : strndup(path, (size_t)(slash - path));
		t->name = strdup(slash == NULL ? path : slash + 1);
	}
	if (t->folder == NULL || t->name == NULL)
		fatal("strdup");
	if (*t->folder == '\0') {
		free(t->folder);
		t->folder = strdup("/");
	}
	if (there && !folder && local_is_folder)
		client_failx(EXIT_REFUSED,
		    "%s is a file in the sandbox: a folder cannot take its place", path);
}

void
up_copy(const char *local, const char *sandbox, const char *path, struct copied *copied)
{
	struct target t = {0};
	struct api_call *c;
	struct api_error e;
	struct pack *pack;
	struct stat st;
	char *url;

	if (stat(local, &st) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", local, strerror(errno));
	choose(local, S_ISDIR(st.st_mode), sandbox, path, &t);
	if (access(local, R_OK) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", local, strerror(errno));
	progress_start(t.name, isatty(STDERR_FILENO) ? pack_size(local) : 0);
	pack = pack_new(local, t.name, copied);
	url = api_path("/v1/sandboxes/%s/files/archive?path=%s", sandbox, t.folder);
	c = api_call_new(client_server(), "PUT", url);
	api_call_upload(c, -1, pack_read, pack);
	if (api_call_run(c, &e) == -1) {
		progress_clear();
		if (cp_caught != 0)
			exit(128 + cp_caught);
		if (e.kind == API_STOPPED)
			client_failx(EXIT_REFUSED, "%s; nothing was copied", pack_error(pack));
		client_fail(&e);
	}
	client_check(api_call_json(c), "path");
	progress_end(copied);
	api_call_free(c);
	pack_free(pack);
	free(url);
	free(t.folder);
	free(t.name);
}
