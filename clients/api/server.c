/* Where the server is and with which key: from options, the environment and a key file (api.h). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <bsd/stdlib.h>

#include "clients/api/api.h"
#include "clients/api/judge.h"
#include "clients/api/pem.h"
#include "common/log.h"

#define URL_DEFAULT "http://127.0.0.1:8080"
#define KEY_BYTES_MAX 4096

static char *
copy(const char *s)
{
	char *p = strdup(s);

	if (p == NULL)
		fatal("strdup");
	return p;
}

/* NULL if it is not set or empty. */
static const char *
env(const char *name)
{
	const char *v = getenv(name);

	return v != NULL && *v != '\0' ? v : NULL;
}

/* Which part of the URL cannot be, or NULL. */
static const char *
url_fault(const char *url)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *part = NULL;
	const char *fault = NULL;

	if (u == NULL)
		fatalx("no memory");
	if (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0)
		fault = "it must begin with http:// or https://";
	else if (strpbrk(url, " \t\r\n") != NULL ||
		 curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
		 curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK)
		fault = "it is not a URL";
	else if (curl_url_get(u, CURLUPART_USER, &part, 0) == CURLUE_OK ||
		 curl_url_get(u, CURLUPART_PASSWORD, &part, 0) == CURLUE_OK)
		fault = "put the key into AGENT_SANDBOX_API_KEY instead";
	else if (curl_url_get(u, CURLUPART_QUERY, &part, 0) == CURLUE_OK ||
		 curl_url_get(u, CURLUPART_FRAGMENT, &part, 0) == CURLUE_OK)
		fault = "it must end with the host, or a path";
	curl_free(scheme);
	curl_free(part);
	curl_url_cleanup(u);
	return fault;
}

static int
take_url(struct api_server *s, const char *url, struct api_error *e)
{
	const char *source = url != NULL ? "--url" : "AGENT_SANDBOX_URL", *fault;
	size_t n;

	if (url == NULL && (url = env("AGENT_SANDBOX_URL")) == NULL)
		url = URL_DEFAULT;
	if ((fault = url_fault(url)) != NULL) {
		/* What stands before "@" may be a secret. */
		const char *shown = strrchr(url, '@') != NULL ? strrchr(url, '@') : url;

		return judge_say(e, API_CONFIG, "%s: %.200s: %s", source, shown, fault);
	}
	s->url = copy(url);
	for (n = strlen(s->url); n > 0 && s->url[n - 1] == '/'; n--)
		s->url[n - 1] = '\0';
	return 0;
}

/* Blanks and line ends around it are no part of it; it becomes a header, so the rest is visible
 * ASCII. */
static int
take_key(struct api_server *s, const char *p, size_t n, const char *source, struct api_error *e)
{
	while (n > 0 && strchr(" \t\r\n", p[n - 1]) != NULL)
		n--;
	while (n > 0 && strchr(" \t\r\n", *p) != NULL)
		p++, n--;
	if (n == 0)
		return judge_say(e, API_CONFIG, "%s: no key in it", source);
	for (size_t i = 0; i < n; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f)
			return judge_say(e, API_CONFIG,
			    "%s: a key is one word of letters, digits and signs; this is not",
			    source);
	if ((s->key = strndup(p, n)) == NULL)
		fatal("strndup");
	return 0;
}

static int
read_key(struct api_server *s, int fd, const char *path, struct api_error *e)
{
	char buf[KEY_BYTES_MAX];
	struct stat st;
	ssize_t n;
	int r;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return judge_say(e, API_CONFIG, "%s: not a file", path);
	if (st.st_mode & 077)
		return judge_say(e, API_CONFIG,
		    "%s: others can read the key in it (mode %04o): chmod 600 it", path,
		    (unsigned)st.st_mode & 07777);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return judge_say(e, API_CONFIG, "%s: it belongs to another user", path);
	if ((n = read(fd, buf, sizeof(buf))) == -1)
		return judge_say(e, API_CONFIG, "%s: %s", path, strerror(errno));
	if ((size_t)n == sizeof(buf))
		r = judge_say(e, API_CONFIG, "%s: too long for a key", path);
	else
		r = take_key(s, buf, (size_t)n, path, e);
	explicit_bzero(buf, sizeof(buf));
	return r;
}

/* must: that there is none is an error. */
static int
take_key_file(struct api_server *s, const char *path, int must, struct api_error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r;

	if (fd == -1) {
		if (!must && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
			return 0;
		return judge_say(e, API_CONFIG, "%s: %s", path, strerror(errno));
	}
	r = read_key(s, fd, path, e);
	close(fd);
	return r;
}

static int
take_default_key_file(struct api_server *s, struct api_error *e)
{
	const char *dir = env("XDG_CONFIG_HOME"), *home = env("HOME");
	char path[PATH_MAX];

	if (dir != NULL && *dir == '/')
		snprintf(path, sizeof(path), "%s/agent-sandbox/key", dir);
	else if (home != NULL)
		snprintf(path, sizeof(path), "%s/.config/agent-sandbox/key", home);
	else
		return 0;
	return take_key_file(s, path, 0, e);
}

static int
take_any_key(struct api_server *s, const char *key_file, struct api_error *e)
{
	const char *key = env("AGENT_SANDBOX_API_KEY"), *file = env("AGENT_SANDBOX_API_KEY_FILE");

	if (key_file != NULL)
		return take_key_file(s, key_file, 1, e);
	if (key != NULL)
		return take_key(s, key, strlen(key), "AGENT_SANDBOX_API_KEY", e);
	if (file != NULL)
		return take_key_file(s, file, 1, e);
	return take_default_key_file(s, e);
}

int
api_server_init(struct api_server *s, const struct api_options *o, struct api_error *e)
{
	memset(s, 0, sizeof(*s));
	memset(e, 0, sizeof(*e));
	e->retry_after = -1;
	if (take_url(s, o->url, e) == -1 || take_any_key(s, o->key_file, e) == -1 ||
	    pem_take(s, o, e) == -1) {
		api_server_free(s);
		return -1;
	}
	return 0;
}

void
api_server_free(struct api_server *s)
{
	free(s->url);
	if (s->key != NULL)
		freezero(s->key, strlen(s->key));
	freezero(s->ca.p, s->ca.n);
	freezero(s->cert.p, s->cert.n);
	freezero(s->cert_key.p, s->cert_key.n);
	memset(s, 0, sizeof(*s));
}
