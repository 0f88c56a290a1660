/* The verb keys: what the key file holds, and a key that is to be good no more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/keyring.h"
#include "agent-sandbox/show.h"
#include "agent-sandbox/verb.h"
#include "common/ids.h"
#include "common/log.h"

static struct {
	const char *file;
	int quiet;
} keys;

static const struct option_row rows[] = {
    {"file", 'f', OPTION_TEXT, &keys.file, "FILE", "the key file (else AGENT_SANDBOX_KEYS_FILE)"},
    {"quiet", 'q', OPTION_FLAG, &keys.quiet, NULL, "list names only"},
    {0},
};
const struct usage usage_keys = {"keys", "list | revoke NAME",
    "Lists the keys of the key file, or takes one away.", rows, 1, 2, 0,
    "\"keygen --name\" adds one. A server that runs reads the file again at a SIGHUP.", 1};

/* Seconds since 1970 as a time. */
static const char *
moment(char buf[TIME_TEXT_MAX], int64_t s)
{
	time_text(buf, s * 1000000);
	strcpy(strchr(buf, '.'), "Z");
	return buf;
}

static json_t *
quota_value(int quota, int64_t value)
{
	char text[KEYS_QUOTA_TEXT];

	return json_loads(keys_quota_text(text, quota, value), JSON_DECODE_ANY, NULL);
}

/* As its line, without the digest; a certificate's is null. */
static json_t *
describe(const struct keys_key *k)
{
	json_t *o = json_object(), *scopes = json_array(), *from = json_array(),
	       *quotas = json_object();
	char text[KEYS_NET_TEXT], at[TIME_TEXT_MAX];

	for (unsigned i = 0; i < KEYS_SCOPE_BITS; i++)
		if (k->scopes & 1u << i)
			json_array_append_new(scopes, json_string(keys_scope_name(i)));
	for (size_t i = 0; i < k->nfrom; i++)
		json_array_append_new(from, json_string(keys_net_text(text, &k->from[i])));
	for (int i = 0; i < KEYS_QUOTAS; i++)
		if (k->quota[i] != KEYS_NO_QUOTA)
			json_object_set_new(
			    quotas, keys_quota_name(i), quota_value(i, k->quota[i]));
	json_object_set_new(o, "name", json_string(k->name));
	json_object_set_new(o, "tenant", json_string(k->tenant));
	json_object_set_new(o, "scopes", scopes);
	json_object_set_new(o, "expires",
	    k->expires_s == KEYS_NEVER ? json_null() : json_string(moment(at, k->expires_s)));
	json_object_set_new(o, "expired", json_boolean(k->expires_s <= time_wall_us() / 1000000));
	json_object_set_new(o, "from", from);
	json_object_set_new(o, "quotas", quotas);
	json_object_set_new(
	    o, "certificate", *k->certificate != '\0' ? json_string(k->certificate) : json_null());
	json_object_set_new(o, "has_key", json_boolean(k->has_digest));
	return o;
}

/* Strings of an array, or the pairs of an object, with commas between; "-" for none. */
static void
list_cell(struct table *t, const json_t *list)
{
	char all[2048] = "";
	const char *name;
	json_t *one;
	size_t i, at = 0;

	json_array_foreach (list, i, one) {
		at += (size_t)snprintf(
		    all + at, sizeof(all) - at, "%s%s", at > 0 ? "," : "", json_string_value(one));
		at = at < sizeof(all) ? at : sizeof(all) - 1;
	}
	json_object_foreach ((json_t *)(uintptr_t)list, name, one) {
		at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s=%.15g", at > 0 ? "," : "",
		    name, json_number_value(one));
		at = at < sizeof(all) ? at : sizeof(all) - 1;
	}
	table_cell(t, at > 0 ? all : "-");
}

static void
list_row(struct table *t, const json_t *o)
{
	const json_t *expires = json_object_get(o, "expires");
	int expired = json_is_true(json_object_get(o, "expired"));
	const char *certificate = client_text(o, "certificate");
	char text[64];

	table_cell(t, client_text(o, "name"));
	table_cell(t, client_text(o, "tenant"));
	list_cell(t, json_object_get(o, "scopes"));
	snprintf(text, sizeof(text), "%s%s",
	    json_is_null(expires) ? "never" : json_string_value(expires), expired ? " (over)" : "");
	table_marked(t, text, expired ? COLOUR_YELLOW : NULL);
	list_cell(t, json_object_get(o, "from"));
	list_cell(t, json_object_get(o, "quotas"));
	table_cell(t, *certificate != '\0' ? certificate : "-");
}

static int
list(void)
{
	static const char *const headings[] = {
	    "NAME", "TENANT", "SCOPES", "EXPIRES", "FROM", "QUOTAS OF THE TENANT", "CERTIFICATE"};
	json_t *all = json_array(), *one;
	struct keyring ring;
	struct table *t;
	size_t i;

	keyring_open(&ring, &usage_keys, keys.file, KEYRING_READ);
	for (i = 0; i < ring.keys.count; i++)
		json_array_append_new(all, describe(&ring.keys.keys[i]));
	keyring_close(&ring);
	if (keys.quiet) {
		json_array_foreach (all, i, one) {
			puts(client_text(one, "name"));
		}
	} else if (common_options.json) {
		show_json(all);
	} else {
		t = table_new(headings, sizeof(headings) / sizeof(headings[0]));
		json_array_foreach (all, i, one) {
			list_row(t, one);
		}
		table_print(t);
	}
	json_decref(all);
	return show_end();
}

/* The text without one line, counted from 1. Returns the length of what is left, in text. */
static size_t
without_line(char *text, size_t n, unsigned line)
{
	char *p = text, *end = text + n, *stop;

	for (; line > 1; line--)
		p = (char *)memchr(p, '\n', (size_t)(end - p)) + 1;
	stop = memchr(p, '\n', (size_t)(end - p));
	stop = stop != NULL ? stop + 1 : end;
	memmove(p, stop, (size_t)(end - stop));
	return n - (size_t)(stop - p);
}

static int
revoke(const char *name)
{
	const struct keys_key *k;
	struct keyring ring;

	keyring_open(&ring, &usage_keys, keys.file, KEYRING_CHANGE);
	if ((k = keyring_find(&ring, name)) == NULL)
		client_failx(EXIT_NOT_FOUND,
		    "%s: there is no key %.100s: \"agent-sandbox keys list\" lists those there are",
		    ring.path, name);
	ring.n = without_line(ring.text, ring.n, k->line);
	keyring_replace(&ring, ring.text, ring.n);
	keyring_hint(&ring, "no more in", name);
	keyring_close(&ring);
	return 0;
}

int
verb_keys(int argc, char **argv)
{
	int n;
	char **words = options_read(&usage_keys, argc, argv, &n);

	if (strcmp(words[0], "list") == 0 && n == 1)
		return list();
	if (strcmp(words[0], "revoke") == 0 && n == 2)
		return revoke(words[1]);
	if (strcmp(words[0], "revoke") == 0)
		options_wrong(&usage_keys, "revoke: the NAME is missing");
	options_wrong(&usage_keys, "%s: list, or revoke NAME, is wanted", words[n - 1]);
}
