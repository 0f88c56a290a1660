/*
 * A file or folder out of a sandbox. It grows under another name beside its place and is moved
 * there when all of it has come; whatever goes wrong before that leaves nothing.
 */
#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <bsd/stdlib.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/cp/cp.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define BUFFER (4 << 20)

struct stream {
	CURLM *multi;
	CURL *curl;
	struct api_call *call;
	CURLcode code;
	int ended, paused;
	char *buf;
	size_t n, given; /* bytes in buf; those that libarchive has */
};

struct place {
	int dir; /* of the target */
	char *name, *temp;
};

static int
on_bytes(void *arg, const char *data, size_t n)
{
	struct stream *s = arg;

	if (s->n + n > BUFFER) {
		s->paused = 1;
		return API_LATER;
	}
	memcpy(s->buf + s->n, data, n);
	s->n += n;
	return 0;
}

/* libarchive wants more: lets the transfer run until there is something, or an end. */
static la_ssize_t
on_wanted(struct archive *a, void *arg, const void **data)
{
	struct stream *s = arg;
	CURLMsg *msg;
	int running, left;

	s->n = 0;
	if (s->paused) {
		s->paused = 0;
		curl_easy_pause(s->curl, CURLPAUSE_CONT);
	}
	while (s->n == 0 && !s->ended) {
		if (curl_multi_perform(s->multi, &running) != CURLM_OK)
			fatalx("libcurl failed");
		while ((msg = curl_multi_info_read(s->multi, &left)) != NULL) {
			s->ended = 1;
			s->code = msg->data.result;
		}
		if (cp_caught != 0) {
			archive_set_error(a, EINTR, "interrupted");
			return -1;
		}
		if (s->n == 0 && !s->ended)
			curl_multi_poll(s->multi, NULL, 0, 1000, NULL);
	}
	*data = s->buf;
	return (la_ssize_t)s->n;
}

static void
stream_open(struct stream *s, const char *sandbox, const char *path)
{
	char *url = api_path("/v1/sandboxes/%s/files/archive?path=%s", sandbox, path);

	memset(s, 0, sizeof(*s));
	if ((s->buf = malloc(BUFFER)) == NULL || (s->multi = curl_multi_init()) == NULL)
		fatalx("no memory");
	s->call = api_call_new(client_server(), "GET", url);
	api_call_download(s->call, on_bytes, s);
	s->curl = api_call_curl(s->call);
	if (curl_multi_add_handle(s->multi, s->curl) != CURLM_OK)
		fatalx("libcurl takes no call");
	free(url);
}

/* Has all of it come? Reads to the end for that. */
static int
stream_end(struct stream *s, struct archive *a, struct api_error *e)
{
	const void *data;

	while (!s->ended && cp_caught == 0)
		if (on_wanted(a, s, &data) < 0)
			break;
	if (!s->ended) {
		memset(e, 0, sizeof(*e));
		e->kind = API_STOPPED;
		return -1;
	}
	return api_call_done(s->call, s->code, e);
}

static void
stream_close(struct stream *s)
{
	curl_multi_remove_handle(s->multi, s->curl);
	api_call_free(s->call);
	curl_multi_cleanup(s->multi);
	free(s->buf);
}

/* The last name of a path in a sandbox; that of the workspace if there is none. */
static const char *
remote_name(const char *path)
{
	static char name[256];
	size_t n = strlen(path), begin;

	while (
	    n > 0 && (path[n - 1] == '/' || (path[n - 1] == '.' && (n == 1 || path[n - 2] == '/'))))
		n--;
	for (begin = n; begin > 0 && path[begin - 1] != '/'; begin--)
		;
	snprintf(name, sizeof(name), "%.*s", (int)(n - begin), path + begin);
	return *name != '\0' && strcmp(name, "..") != 0 ? name : "workspace";
}

/* As cp(1): into a folder that is there, else local is the new name. */
static void
choose(const char *local, const char *path, struct place *p)
{
	const char *slash = strrchr(local, '/'), *folder = ".";
	char *owned = NULL;
	struct stat st;

	if (stat(local, &st) == 0 && S_ISDIR(st.st_mode)) {
		folder = local;
		p->name = strdup(remote_name(path));
	} else if (slash != NULL && slash[1] == '\0') {
		client_failx(EXIT_REFUSED, "%s: there is no such folder", local);
	} else if (slash != NULL) {
		folder = owned = strndup(local, (size_t)(slash - local) + 1);
		p->name = strdup(slash + 1);
	} else {
		p->name = strdup(local);
	}
	if (p->name == NULL || folder == NULL ||
	    asprintf(&p->temp, ".%.200s.%08x.part", p->name, arc4random()) == -1)
		fatal("strdup");
	if ((p->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) == -1)
		client_failx(EXIT_REFUSED, "%s: %s", folder, strerror(errno));
	if (!cp_options.force && faccessat(p->dir, p->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		client_failx(EXIT_REFUSED,
		    "%s%s%s exists and was left as it is: --force replaces it",
		    owned != NULL || folder[0] != '.' ? folder : "",
		    owned == NULL && folder[0] != '.' ? "/" : "", p->name);
	free(owned);
}

static void
give_up(struct place *p)
{
	progress_clear();
	tree_remove(p->dir, p->temp);
	if (cp_caught != 0)
		exit(128 + cp_caught);
}

static void
move_into_place(struct place *p)
{
	if (tree_place(p->dir, p->temp, p->name, cp_options.force) == 0)
		return;
	if (errno == EISDIR) {
		give_up(p);
		client_failx(EXIT_REFUSED,
		    "%s: a folder of that name is in the way of a file; it was left as it is",
		    p->name);
	}
	if (errno == ENOTDIR) {
		give_up(p);
		client_failx(EXIT_REFUSED,
		    "%s: a file of that name is in the way of a folder; it was left as it is",
		    p->name);
	}
	{
		int saved = errno;

		give_up(p);
		client_failx(EXIT_REFUSED, "%s: %s", p->name, strerror(saved));
	}
}

void
down_copy(const char *sandbox, const char *path, const char *local, struct copied *copied)
{
	struct archive *a = archive_read_new();
	char why[EXTRACT_WHY] = "";
	struct stream s;
	struct api_error e;
	struct place p;
	int r, done;

	choose(local, path, &p);
	stream_open(&s, sandbox, *path != '\0' ? path : "/workspace");
	if (a == NULL || archive_read_support_format_tar(a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(a) != ARCHIVE_OK)
		fatalx("libarchive cannot read");
	progress_start(p.name, 0);
	snprintf(why, sizeof(why), "the archive is broken");
	r = archive_read_open(a, &s, NULL, on_wanted, NULL) == ARCHIVE_OK
		? extract_tree(a, p.dir, p.temp, copied, why)
		: EXTRACT_BAD;
	/* What the server says comes first: an archive that it cuts off looks broken, too. */
	if (r != 0 && !s.ended)
		done = 0;
	else
		done = stream_end(&s, a, &e);
	if (done == -1 || r != 0) {
		give_up(&p);
		if (done == -1)
			client_fail(&e);
		client_failx(r == EXTRACT_BAD ? EXIT_UNREACHABLE : EXIT_REFUSED,
		    "%s; nothing was copied", why);
	}
	move_into_place(&p);
	progress_end(copied);
	archive_read_free(a);
	stream_close(&s);
	close(p.dir);
	free(p.name);
	free(p.temp);
}
