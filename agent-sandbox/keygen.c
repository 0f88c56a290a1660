/* The verb keygen: a new key, and its line in the key file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <bsd/stdlib.h>
#include <openssl/sha.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/keyring.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "common/ids.h"
#include "common/items.h"
#include "common/log.h"

#define KEY_PREFIX "as_"
#define KEY_LETTERS 43 /* of 62: 256 bits */
#define KEY_TEXT (sizeof(KEY_PREFIX) + KEY_LETTERS)

static struct {
	const char *name, *tenant, *scopes, *expires, *certificate, *file;
	struct texts from, quotas;
	int no_key;
} keygen;

static const struct option_row rows[] = {
    {"name", 0, OPTION_TEXT, &keygen.name, "NAME", "what it is called in the key file and logs"},
    {"tenant", 0, OPTION_TEXT, &keygen.tenant, "TENANT",
	"whose sandboxes it sees and makes (else default)"},
    {"scopes", 0, OPTION_TEXT, &keygen.scopes, "LIST",
	"of read,exec,files,manage (these if not given) and admin"},
    {"expires", 0, OPTION_TEXT, &keygen.expires, "TIME",
	"how long it is good (90d), or a date in UTC: 2027-01-31"},
    {"from", 0, OPTION_LIST, &keygen.from, "LIST", "only from these addresses and CIDRs"},
    {"quota", 0, OPTION_LIST, &keygen.quotas, "LIST",
	"such as sandboxes=5,cpus=2.5, of all keys of the tenant"},
    {"certificate", 0, OPTION_TEXT, &keygen.certificate, "CN",
	"a client certificate of this common name stands for it"},
    {"no-key", 0, OPTION_FLAG, &keygen.no_key, NULL, "only the certificate does: no key is made"},
    {"file", 'f', OPTION_TEXT, &keygen.file, "FILE", "the key file (else AGENT_SANDBOX_KEYS_FILE)"},
    {0},
};
const struct usage usage_keygen = {"keygen", "",
    "Prints a new API key; with --name, and adds its line to the key file of the server.", rows, 0,
    0, 0,
    "Without options: a key for AGENT_SANDBOX_API_KEYS. Else the file holds only its digest: the\n"
    "key is printed this once. Quotas are sandboxes, cpus, memory_mb, snapshots,\n"
    "snapshot_bytes, requests_per_second and execs, of all keys of a tenant together.",
    1};

static void
make_key(char key[KEY_TEXT])
{
	static const char letters[] =
	    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	size_t at = strlen(KEY_PREFIX);

	memcpy(key, KEY_PREFIX, at);
	for (int i = 0; i < KEY_LETTERS; i++)
		key[at++] = letters[arc4random_uniform(sizeof(letters) - 1)];
	key[at] = '\0';
}

static int
print_key(const char *key)
{
	if (common_options.json)
		printf("\"%s\"\n", key);
	else
		puts(key);
	return show_end();
}

/* Adds the items of a comma-separated list as strings. */
static void
add_items(json_t *array, const char *list)
{
	const char *item;
	char text[256];
	size_t n;

	while ((item = items_next(&list, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, item);
		json_array_append_new(array, object_text(&usage_keygen, text));
	}
}

static json_t *
lists(const char *const *v, size_t n)
{
	json_t *array = json_array();

	for (size_t i = 0; i < n; i++)
		add_items(array, v[i]);
	return array;
}

/* "sandboxes=5,cpus=1.5" */
static void
add_quotas(json_t *quotas, const char *list)
{
	const char *item;
	char text[256], *sign;
	json_t *value;
	size_t n;

	while ((item = items_next(&list, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, item);
		if ((sign = strchr(text, '=')) == NULL)
			options_wrong(&usage_keygen, "--quota: %s: NAME=NUMBER is wanted", text);
		*sign = '\0';
		value = json_loads(sign + 1, JSON_DECODE_ANY, NULL);
		if (!json_is_number(value))
			options_wrong(
			    &usage_keygen, "--quota: %s: %s is not a number", text, sign + 1);
		if (json_object_get(quotas, text) != NULL)
			options_wrong(&usage_keygen, "--quota: %s is given twice", text);
		if (json_object_set_new(quotas, text, value) == -1)
			options_wrong(&usage_keygen, "--quota: %s is not UTF-8", text);
	}
}

/* "90d" from now, "2027-01-31" at its beginning, or a whole time: RFC 3339, to the second. */
static json_t *
expiry(const char *text)
{
	char at[TIME_TEXT_MAX], day[TIME_TEXT_MAX];
	int64_t us, now = time_wall_us();
	double seconds;

	snprintf(day, sizeof(day), "%.16sT00:00:00Z", text);
	if (options_seconds(text, &seconds) == 0)
		us = now + (int64_t)(seconds * 1e6);
	else if (time_parse(text, &us) == -1 && time_parse(day, &us) == -1)
		options_wrong(&usage_keygen,
		    "--expires: %s is neither a time such as 90d nor a date such as 2027-01-31",
		    text);
	if (us <= now)
		options_wrong(&usage_keygen, "--expires: %s is over already", text);
	time_text(at, us);
	strcpy(strchr(at, '.'), "Z"); /* what is behind the second goes */
	return json_string(at);
}

static json_t *
digest_of(const char *key)
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof(digest) + 1];

	if (keygen.no_key)
		return json_null();
	SHA256((const unsigned char *)key, strlen(key), digest);
	hex_encode(digest, sizeof(digest), hex);
	return json_string(hex);
}

/* The line's object. */
static json_t *
describe(const char *key)
{
	json_t *o = json_object(), *quotas = json_object();

	json_object_set_new(o, "name", object_text(&usage_keygen, keygen.name));
	json_object_set_new(o, "tenant",
	    object_text(&usage_keygen, keygen.tenant != NULL ? keygen.tenant : KEYS_TENANT));
	json_object_set_new(o, "digest", digest_of(key));
	json_object_set_new(o, "scopes",
	    lists((const char *const[]){keygen.scopes != NULL ? keygen.scopes
							      : "read,exec,files,manage"},
		1));
	json_object_set_new(
	    o, "expires", keygen.expires != NULL ? expiry(keygen.expires) : json_null());
	if (keygen.from.n > 0)
		json_object_set_new(o, "from", lists(keygen.from.v, keygen.from.n));
	for (size_t i = 0; i < keygen.quotas.n; i++)
		add_quotas(quotas, keygen.quotas.v[i]);
	if (keygen.quotas.n > 0)
		json_object_set(o, "quotas", quotas);
	json_decref(quotas);
	if (keygen.certificate != NULL)
		json_object_set_new(
		    o, "certificate", object_text(&usage_keygen, keygen.certificate));
	return o;
}

/* What is wrong with the options is said before there is a file. */
static void
check_line(const char *line)
{
	char why[256];
	struct keys_key k;

	if (keys_line_parse(line, strlen(line), &k, why, sizeof(why)) == -1)
		options_wrong(&usage_keygen, "--%s", why);
}

static int
print_made(json_t *line, const char *key)
{
	if (!common_options.json)
		return keygen.no_key ? 0 : print_key(key);
	json_object_del(line, "digest");
	if (!keygen.no_key)
		json_object_set_new(line, "key", json_string(key));
	show_json(line);
	return show_end();
}

static int
add_to_file(void)
{
	char key[KEY_TEXT], *line;
	struct keyring ring;
	json_t *o;

	make_key(key);
	o = describe(key);
	if ((line = json_dumps(o, JSON_COMPACT)) == NULL)
		fatalx("no memory");
	check_line(line);
	keyring_open(&ring, &usage_keygen, keygen.file, KEYRING_MAKE);
	if (keyring_find(&ring, keygen.name) != NULL)
		client_failx(EXIT_REFUSED,
		    "%s: there is a key %s already, in line %u: choose another name, or revoke it",
		    ring.path, keygen.name, keyring_find(&ring, keygen.name)->line);
	keyring_append(&ring, line);
	/* Nobody would ever know a key that could not be printed. */
	if (print_made(o, key) != 0) {
		keyring_undo(&ring);
		return EXIT_REFUSED;
	}
	keyring_hint(&ring, "added to", keygen.name);
	keyring_close(&ring);
	explicit_bzero(key, sizeof(key));
	json_decref(o);
	free(line);
	return 0;
}

int
verb_keygen(int argc, char **argv)
{
	char key[KEY_TEXT];
	int n, any;

	options_read(&usage_keygen, argc, argv, &n);
	any = keygen.tenant != NULL || keygen.scopes != NULL || keygen.expires != NULL ||
	      keygen.certificate != NULL || keygen.file != NULL || keygen.from.n > 0 ||
	      keygen.quotas.n > 0 || keygen.no_key;
	if (keygen.name == NULL && any)
		options_wrong(&usage_keygen, "--name is missing");
	if (keygen.no_key && keygen.certificate == NULL)
		options_wrong(&usage_keygen, "--no-key needs --certificate");
	if (keygen.name != NULL)
		return add_to_file();
	make_key(key);
	return print_key(key);
}
