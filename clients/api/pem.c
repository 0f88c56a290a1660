/* Certificates and keys of a client's TLS, read from their files (pem.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <sys/stat.h>
#include <bsd/stdlib.h>

#include "clients/api/judge.h"
#include "clients/api/pem.h"
#include "common/log.h"

#define PEM_MAX ((size_t)4 << 20)
#define CERTIFICATE "CERTIFICATE-----"
#define PRIVATE_KEY "PRIVATE KEY-----"

/* What one file is for. */
struct role {
	const char *option, *variable;
	const char *holds; /* what its "-----BEGIN" line ends with */
	const char *what;
	int secret;
};

static const struct role roles[] = {
    {"--cacert", "AGENT_SANDBOX_CA_FILE", CERTIFICATE, "certificate", 0},
    {"--cert", "AGENT_SANDBOX_CLIENT_CERT", CERTIFICATE, "certificate", 0},
    {"--cert-key", "AGENT_SANDBOX_CLIENT_KEY", PRIVATE_KEY, "private key", 1},
};
enum { CA, CERT, CERT_KEY };

static int
holds(const struct api_pem *pem, const char *what)
{
	return memmem(pem->p, pem->n, what, strlen(what)) != NULL;
}

static int
check_secret(const char *path, const struct stat *st, struct api_error *e)
{
	if (st->st_mode & 077)
		return judge_say(e, API_CONFIG,
		    "%s: others can read the key in it (mode %04o): chmod 600 it", path,
		    (unsigned)st->st_mode & 07777);
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return judge_say(e, API_CONFIG, "%s: it belongs to another user", path);
	return 0;
}

static int
read_all(int fd, const char *path, size_t size, struct api_pem *pem, struct api_error *e)
{
	ssize_t n = 1;

	if (size > PEM_MAX)
		return judge_say(e, API_CONFIG, "%s: is larger than %zu bytes", path, PEM_MAX);
	if ((pem->p = calloc(1, size + 1)) == NULL)
		fatal("%s", path);
	while (pem->n < size && n > 0) {
		if ((n = read(fd, pem->p + pem->n, size - pem->n)) == -1)
			return judge_say(e, API_CONFIG, "%s: %s", path, strerror(errno));
		pem->n += (size_t)n;
	}
	return 0;
}

/* Into pem, which stays to be freed. */
static int
take_file(struct api_pem *pem, const struct role *role, const char *path, struct api_error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r = 0;
	struct stat st;

	if (fd == -1)
		return judge_say(
		    e, API_CONFIG, "%s: %s: %s", role->variable, path, strerror(errno));
	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		r = judge_say(e, API_CONFIG, "%s: %s: not a file", role->variable, path);
	else
		r = read_all(fd, path, (size_t)st.st_size, pem, e);
	close(fd);
	if (r == 0 && !holds(pem, role->holds))
		r = judge_say(e, API_CONFIG, "%s: %s: there is no %s in it (PEM is wanted)",
		    role->variable, path, role->what);
	if (r == 0 && (role->secret || holds(pem, PRIVATE_KEY)))
		r = check_secret(path, &st, e);
	/* Its passphrase would be asked for on the terminal. */
	if (r == 0 && role->secret && holds(pem, "ENCRYPTED"))
		r = judge_say(e, API_CONFIG,
		    "%s: %s: its key is encrypted, for which there is no passphrase here",
		    role->variable, path);
	return r;
}

/* The option, else the variable; NULL: not given. */
static const char *
path_of(const struct role *role, const char *given)
{
	const char *v = getenv(role->variable);

	if (given != NULL)
		return given;
	return v != NULL && *v != '\0' ? v : NULL;
}

static int
take_certificate(struct api_server *s, const struct api_options *o, struct api_error *e)
{
	const char *cert = path_of(&roles[CERT], o->cert);
	const char *key = path_of(&roles[CERT_KEY], o->cert_key);

	if (cert == NULL && key != NULL)
		return judge_say(e, API_CONFIG,
		    "%s: %s: its certificate is missing: give it with --cert or "
		    "AGENT_SANDBOX_CLIENT_CERT",
		    roles[CERT_KEY].variable, key);
	if (cert == NULL)
		return 0;
	if (take_file(&s->cert, &roles[CERT], cert, e) == -1)
		return -1;
	if (key == NULL && !holds(&s->cert, PRIVATE_KEY))
		return judge_say(e, API_CONFIG,
		    "%s: %s: its private key is missing: give it with --cert-key or "
		    "AGENT_SANDBOX_CLIENT_KEY",
		    roles[CERT].variable, cert);
	return take_file(&s->cert_key, &roles[CERT_KEY], key != NULL ? key : cert, e);
}

int
pem_take(struct api_server *s, const struct api_options *o, struct api_error *e)
{
	const char *given[] = {o->ca_file, o->cert, o->cert_key}, *ca;

	if (strncasecmp(s->url, "https:", 6) != 0) {
		/* Who says whom to trust must not talk to anybody; variables may be for others. */
		for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
			if (given[i] != NULL)
				return judge_say(e, API_CONFIG,
				    "%s: the server is %.200s, which is not https", roles[i].option,
				    s->url);
		return 0;
	}
	if ((ca = path_of(&roles[CA], o->ca_file)) != NULL &&
	    take_file(&s->ca, &roles[CA], ca, e) == -1)
		return -1;
	return take_certificate(s, o, e);
}

static void
must(CURLcode e)
{
	if (e != CURLE_OK)
		fatalx("libcurl: %s", curl_easy_strerror(e));
}

static void
give(CURL *curl, CURLoption option, const struct api_pem *pem)
{
	struct curl_blob blob = {pem->p, pem->n, CURL_BLOB_NOCOPY};

	if (pem->p != NULL)
		must(curl_easy_setopt(curl, option, &blob));
}

void
pem_give(CURL *curl, const struct api_server *s)
{
	/* The variables that most programs know. */
	const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");

	must(curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2));
	if (s->ca.p != NULL) {
		must(curl_easy_setopt(curl, CURLOPT_CAPATH, NULL));
		file = folder = NULL;
	}
	if (file != NULL && *file != '\0')
		must(curl_easy_setopt(curl, CURLOPT_CAINFO, file));
	if (folder != NULL && *folder != '\0')
		must(curl_easy_setopt(curl, CURLOPT_CAPATH, folder));
	give(curl, CURLOPT_CAINFO_BLOB, &s->ca);
	give(curl, CURLOPT_SSLCERT_BLOB, &s->cert);
	give(curl, CURLOPT_SSLKEY_BLOB, &s->cert_key);
}
