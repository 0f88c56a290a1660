/* One line of the key file (keys_file.h): an object whose members are all known, each once. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bsd/string.h>
#include <jansson.h>

#include "common/ids.h"
#include "common/keys_file.h"

#define WHY_MAX 256

#define QUOTA(id, word, unit, least, most) {word, unit, least, most},
static const struct {
	const char *word;
	int64_t unit, least, most;
} quotas[KEYS_QUOTAS] = {KEYS_QUOTA_TABLE(QUOTA)};

#define WORD(id, word) word,
static const char *const scopes[KEYS_SCOPE_BITS] = {KEYS_SCOPES(WORD)};

const char *
keys_scope_name(unsigned bit)
{
	return scopes[bit];
}

const char *
keys_quota_name(enum keys_quota quota)
{
	return quotas[quota].word;
}

char *
keys_quota_text(char out[KEYS_QUOTA_TEXT], enum keys_quota quota, int64_t value)
{
	snprintf(out, KEYS_QUOTA_TEXT, "%.15g", (double)value / (double)quotas[quota].unit);
	return out;
}

static int refuse(char *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What a text quotes of the line is a name that was checked before, or cut and made visible by
 * quoted(): somebody may have put the key itself where it does not belong. */
static int
refuse(char *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, WHY_MAX, fmt, ap);
	va_end(ap);
	return -1;
}

static const char *
quoted(const char *text)
{
	static char buf[24];
	size_t i;

	for (i = 0; text[i] != '\0' && i < sizeof(buf) - 1; i++)
		buf[i] = isgraph((unsigned char)text[i]) ? text[i] : '?';
	buf[i] = '\0';
	return buf;
}

int
keys_name_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return isalnum((unsigned char)*s) && s[n] == '\0' && n <= KEYS_NAME_MAX;
}

static int
take_name(char out[KEYS_NAME_MAX + 1], const char *member, const json_t *v, char *why)
{
	const char *s = json_string_value(v);

	if (s == NULL || !keys_name_valid(s))
		return refuse(why,
		    "%s: must be a letter or digit, then at most %d of letters, digits and ._-",
		    member, KEYS_NAME_MAX - 1);
	strlcpy(out, s, KEYS_NAME_MAX + 1);
	return 0;
}

static int
on_name(struct keys_key *k, const json_t *v, char *why)
{
	return take_name(k->name, "name", v, why);
}

static int
on_tenant(struct keys_key *k, const json_t *v, char *why)
{
	return take_name(k->tenant, "tenant", v, why);
}

static int
on_digest(struct keys_key *k, const json_t *v, char *why)
{
	const char *s = json_string_value(v);

	if (json_is_null(v))
		return 0;
	if (s == NULL || hex_decode(s, k->digest, sizeof(k->digest)) == -1)
		return refuse(
		    why, "digest: must be the SHA-256 of the key as 64 digits 0-9a-f, or null");
	k->has_digest = 1;
	return 0;
}

static int
scope_bit(const char *word)
{
	for (int i = 0; word != NULL && i < KEYS_SCOPE_BITS; i++)
		if (strcmp(word, scopes[i]) == 0)
			return i;
	return -1;
}

static int
on_scopes(struct keys_key *k, const json_t *v, char *why)
{
	const json_t *one;
	size_t i;
	int bit;

	k->scopes = 0;
	if (!json_is_array(v) || json_array_size(v) == 0)
		return refuse(why, "scopes: must be a list of read, exec, files, manage, admin");
	json_array_foreach (v, i, one) {
		if ((bit = scope_bit(json_string_value(one))) == -1)
			return refuse(why, "scopes: only read, exec, files, manage and admin are");
		if (k->scopes & 1u << bit)
			return refuse(why, "scopes: %s stands twice", scopes[bit]);
		k->scopes |= (uint8_t)(1u << bit);
	}
	return 0;
}

static int
on_expires(struct keys_key *k, const json_t *v, char *why)
{
	const char *s = json_string_value(v);
	int64_t us;

	if (json_is_null(v))
		return 0;
	if (s == NULL || time_parse(s, &us) == -1)
		return refuse(why, "expires: must be a time such as 2027-01-31T00:00:00Z, or null");
	k->expires_s = us / 1000000;
	return 0;
}

static int
on_from(struct keys_key *k, const json_t *v, char *why)
{
	const json_t *one;
	const char *fault;
	size_t i;

	if (!json_is_array(v) || json_array_size(v) == 0)
		return refuse(why, "from: must be a list of addresses and CIDRs; without it a key "
				   "is good from everywhere");
	if (json_array_size(v) > KEYS_NETS_MAX)
		return refuse(why, "from: names more than %d ranges", KEYS_NETS_MAX);
	json_array_foreach (v, i, one) {
		const char *s = json_string_value(one);

		if (s == NULL)
			return refuse(why, "from: must be a list of strings");
		if (keys_net_parse(s, &k->from[i], &fault) == -1)
			return refuse(why, "from: %s %s", quoted(s), fault);
	}
	k->nfrom = json_array_size(v);
	return 0;
}

/* In the quota's own unit: 0, or -1. */
static int
quota_value(int quota, const json_t *v, int64_t *out)
{
	int64_t unit = quotas[quota].unit;
	double real = json_number_value(v);

	if (json_is_integer(v) && json_integer_value(v) >= quotas[quota].least &&
	    json_integer_value(v) <= quotas[quota].most) {
		*out = json_integer_value(v) * unit;
		return 0;
	}
	if (!json_is_real(v) || unit == 1 || real < (double)quotas[quota].least ||
	    real > (double)quotas[quota].most)
		return -1;
	*out = (int64_t)(real * (double)unit + 0.5);
	return 0;
}

static int
on_quotas(struct keys_key *k, const json_t *v, char *why)
{
	const char *name;
	json_t *value;
	int i;

	if (!json_is_object(v))
		return refuse(why, "quotas: must be an object such as {\"sandboxes\":5}");
	json_object_foreach ((json_t *)(uintptr_t)v, name, value) {
		for (i = 0; i < KEYS_QUOTAS && strcmp(name, quotas[i].word) != 0; i++)
			;
		if (i == KEYS_QUOTAS)
			return refuse(why, "quotas: there is no quota %s", quoted(name));
		if (quota_value(i, value, &k->quota[i]) == -1)
			return refuse(why, "quotas: %s: must be a %snumber from %lld to %lld",
			    quotas[i].word, quotas[i].unit == 1 ? "whole " : "",
			    (long long)quotas[i].least, (long long)quotas[i].most);
	}
	return 0;
}

static int
on_certificate(struct keys_key *k, const json_t *v, char *why)
{
	const char *s = json_string_value(v);
	size_t n = s != NULL ? strlen(s) : 0;

	if (n == 0 || n >= sizeof(k->certificate))
		return refuse(why,
		    "certificate: must be the common name of a client certificate, of at most %zu "
		    "bytes",
		    sizeof(k->certificate) - 1);
	for (size_t i = 0; i < n; i++)
		if (iscntrl((unsigned char)s[i]))
			return refuse(why, "certificate: contains a control character");
	memcpy(k->certificate, s, n + 1);
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct keys_key *, const json_t *, char *why);
	int required;
} members[] = {
    {"name", on_name, 1},
    {"tenant", on_tenant, 0},
    {"digest", on_digest, 1},
    {"scopes", on_scopes, 0},
    {"expires", on_expires, 0},
    {"from", on_from, 0},
    {"quotas", on_quotas, 0},
    {"certificate", on_certificate, 0},
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

static int
take_members(struct keys_key *k, json_t *root, char *why)
{
	const char *name;
	json_t *v;
	size_t i;

	for (i = 0; i < MEMBERS; i++)
		if (members[i].required && json_object_get(root, members[i].name) == NULL)
			return refuse(why, "%s: is missing", members[i].name);
	json_object_foreach (root, name, v) {
		for (i = 0; i < MEMBERS && strcmp(name, members[i].name) != 0; i++)
			;
		if (i == MEMBERS)
			return refuse(why, "there is no member %s", quoted(name));
		if (members[i].take(k, v, why) == -1)
			return -1;
	}
	if (!k->has_digest && *k->certificate == '\0')
		return refuse(why, "digest: only a line with a certificate may do without");
	return 0;
}

/* why holds WHY_MAX bytes. */
static int
parse(const char *text, size_t n, struct keys_key *k, char *why)
{
	json_error_t e;
	json_t *root;
	int r;

	if (n > KEYS_LINE_MAX)
		return refuse(why, "is longer than %zu bytes", KEYS_LINE_MAX);
	root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
	if (root == NULL && json_error_code(&e) == json_error_duplicate_key)
		return refuse(why, "a member stands twice");
	if (root == NULL || !json_is_object(root)) {
		json_decref(root);
		return refuse(why, "is not a JSON object");
	}
	r = take_members(k, root, why);
	json_decref(root);
	return r;
}

int
keys_line_parse(const char *text, size_t n, struct keys_key *k, char *why, size_t size)
{
	char fault[WHY_MAX];

	memset(k, 0, sizeof(*k));
	strlcpy(k->tenant, KEYS_TENANT, sizeof(k->tenant));
	k->scopes = KEYS_SCOPES_DEFAULT;
	k->expires_s = KEYS_NEVER;
	for (int i = 0; i < KEYS_QUOTAS; i++)
		k->quota[i] = KEYS_NO_QUOTA;
	if (parse(text, n, k, fault) == 0)
		return 0;
	strlcpy(why, fault, size);
	return -1;
}

int
keys_line_empty(const char *text, size_t n)
{
	if (n > 0 && *text == '#')
		return 1;
	for (size_t i = 0; i < n; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return 0;
	return 1;
}
