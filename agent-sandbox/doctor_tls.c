/* What clients of a network port need: certificates that are good, and go with their keys. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "agent-sandbox/doctor.h"
#include "common/items.h"

#define PATH_TEXT 1024
#define NAMES_TEXT 200
#define SOON_DAYS 30

/* The n-th path of a comma-separated list. NULL: there is none. */
static const char *
nth(const char *list, int n, char path[PATH_TEXT])
{
	const char *item;
	size_t len;

	while ((item = items_next(&list, &len)) != NULL) {
		if (n-- == 0) {
			snprintf(path, PATH_TEXT, "%.*s", (int)len, item);
			return path;
		}
	}
	return NULL;
}

FILE *
doctor_open(const char *setting, const char *path, mode_t never)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd == -1 || fstat(fd, &st) == -1)
		doctor_say(FINDING_FAIL, "%s: %s: %s", setting, path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		doctor_say(FINDING_FAIL, "%s: %s: not a regular file", setting, path);
	else if (st.st_mode & never)
		doctor_say(FINDING_FAIL,
		    "%s: %s: others have access to it (mode %04o): chmod %s it", setting, path,
		    (unsigned)st.st_mode & 07777, never == 077 ? "600" : "o=");
	else
		return fdopen(fd, "r");
	if (fd != -1)
		close(fd);
	return NULL;
}

/* A passphrase would be asked for on the terminal. */
static int
no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void)buf, (void)size, (void)writing, (void)arg;
	return -1;
}

/* The names that it is for, with blanks between. */
static void
names_of(const X509 *x, char text[NAMES_TEXT])
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	size_t at = 0;

	text[0] = '\0';
	for (int i = 0; i < sk_GENERAL_NAME_num(names) && at < NAMES_TEXT - 1; i++) {
		int type;
		const ASN1_STRING *s =
		    GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

		if (type == GEN_DNS)
			at += (size_t)snprintf(text + at, NAMES_TEXT - at, "%s%.*s",
			    at > 0 ? " " : "", ASN1_STRING_length(s),
			    (const char *)ASN1_STRING_get0_data(s));
		else if (type == GEN_IPADD)
			at += (size_t)snprintf(
			    text + at, NAMES_TEXT - at, "%san address", at > 0 ? " " : "");
	}
	GENERAL_NAMES_free(names);
}

/* Days until then, rounded down. */
static long
days_until(const ASN1_TIME *then)
{
	int days = 0, seconds = 0;

	ASN1_TIME_diff(&days, &seconds, NULL, then);
	return days - (seconds < 0);
}

static void
judge_times(const char *setting, const char *path, const X509 *x)
{
	char names[NAMES_TEXT];
	long left = days_until(X509_get0_notAfter(x));

	names_of(x, names);
	if (days_until(X509_get0_notBefore(x)) >= 0)
		doctor_say(
		    FINDING_FAIL, "%s: %s: is not valid yet: check the clock", setting, path);
	else if (left < 0)
		doctor_say(
		    FINDING_FAIL, "%s: %s: has expired: no client would trust it", setting, path);
	else if (left < SOON_DAYS)
		doctor_say(FINDING_WEAK, "%s: %s: expires in %ld days", setting, path, left);
	else
		doctor_say(FINDING_OK, "certificate %s%s%s, for %ld days more", path,
		    *names != '\0' ? ": " : "", names, left);
}

static X509 *
read_certificate(const char *setting, const char *path)
{
	FILE *f = doctor_open(setting, path, 0);
	X509 *x = f != NULL ? PEM_read_X509(f, NULL, no_passphrase, NULL) : NULL;

	if (f != NULL && x == NULL)
		doctor_say(FINDING_FAIL, "%s: %s: there is no certificate in it (PEM is wanted)",
		    setting, path);
	if (f != NULL)
		fclose(f);
	return x;
}

static void
check_pair(const char *cert, const char *key)
{
	X509 *x = read_certificate("AGENT_SANDBOX_TLS_CERT", cert);
	FILE *f = doctor_open("AGENT_SANDBOX_TLS_KEY", key, S_IRWXO);
	EVP_PKEY *pkey = f != NULL ? PEM_read_PrivateKey(f, NULL, no_passphrase, NULL) : NULL;

	if (f != NULL && pkey == NULL)
		doctor_say(FINDING_FAIL,
		    "AGENT_SANDBOX_TLS_KEY: %s: there is no private key without a passphrase in "
		    "it",
		    key);
	else if (x != NULL && pkey != NULL && X509_check_private_key(x, pkey) != 1)
		doctor_say(FINDING_FAIL,
		    "AGENT_SANDBOX_TLS_KEY: %s: is not the key of the certificate in %s", key,
		    cert);
	if (x != NULL)
		judge_times("AGENT_SANDBOX_TLS_CERT", cert, x);
	EVP_PKEY_free(pkey);
	X509_free(x);
	if (f != NULL)
		fclose(f);
}

void
doctor_tls(const struct settings *s)
{
	const char *ca = s->c.str[CFG_TLS_CLIENT_CA];
	char cert[PATH_TEXT], key[PATH_TEXT];
	X509 *x;

	for (int i = 0; nth(s->c.str[CFG_TLS_CERT], i, cert) != NULL &&
			nth(s->c.str[CFG_TLS_KEY], i, key) != NULL;
	     i++)
		check_pair(cert, key);
	if (*ca == '\0' || (x = read_certificate("AGENT_SANDBOX_TLS_CLIENT_CA", ca)) == NULL)
		return;
	judge_times("AGENT_SANDBOX_TLS_CLIENT_CA", ca, x);
	X509_free(x);
}
