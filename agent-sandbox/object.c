/* Objects of the API: made from what was typed, and printed (object.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent-sandbox/client.h"
#include "agent-sandbox/object.h"
#include "agent-sandbox/show.h"
#include "common/log.h"

#define LABELS_MAX 1024

json_t *
object_text(const struct usage *u, const char *text)
{
	json_t *v = json_string(text);

	if (v == NULL)
		options_wrong(u, "%s is not UTF-8", text);
	return v;
}

static void
set_pair(const struct usage *u, json_t *object, const char *name, size_t n, const char *value)
{
	char *key = strndup(name, n);

	if (key == NULL)
		fatal("strndup");
	if (n == 0)
		options_wrong(u, "=%s: the name is missing", value);
	if (json_object_set_new(object, key, object_text(u, value)) == -1)
		options_wrong(u, "%s is not UTF-8", key);
	free(key);
}

json_t *
object_pairs(const struct usage *u, const struct texts *list)
{
	json_t *object = json_object();

	for (size_t i = 0; i < list->n; i++) {
		const char *sign = strchr(list->v[i], '=');

		if (sign == NULL)
			options_wrong(u, "%s: NAME=VALUE is wanted", list->v[i]);
		set_pair(u, object, list->v[i], (size_t)(sign - list->v[i]), sign + 1);
	}
	return object;
}

json_t *
object_env(const struct usage *u, const struct texts *list)
{
	json_t *object = json_object();

	for (size_t i = 0; i < list->n; i++) {
		const char *word = list->v[i], *sign = strchr(word, '='), *value;

		if (sign != NULL) {
			set_pair(u, object, word, (size_t)(sign - word), sign + 1);
			continue;
		}
		if ((value = getenv(word)) == NULL)
			options_wrong(u, "--env %s: this variable is not set here", word);
		set_pair(u, object, word, strlen(word), value);
	}
	return object;
}

json_t *
object_seconds(const struct usage *u, double seconds)
{
	json_int_t whole;

	if (!(seconds <= 1e9))
		options_wrong(u, "that is too long a time");
	whole = (json_int_t)seconds;
	return json_integer(whole + ((double)whole < seconds));
}

void
object_egress(const struct usage *u, json_t *body, const struct texts *list, int none)
{
	json_t *entries = json_array();

	if (none && list->n > 0)
		options_wrong(u, "--egress and --no-egress cannot both be");
	for (size_t i = 0; i < list->n; i++)
		json_array_append_new(entries, object_text(u, list->v[i]));
	if (none || list->n > 0)
		json_object_set(body, "egress_allowlist", entries);
	json_decref(entries);
}

int
object_print_id(json_t *answer)
{
	client_check(answer, "id");
	if (common_options.json) {
		show_json(answer);
	} else {
		char id[64];

		puts(show_line(client_text(answer, "id"), id, sizeof(id)));
	}
	json_decref(answer);
	return show_end();
}

/* One member as text: strings as they are, the rest as JSON. */
static void
print_member(const char *name, const json_t *v)
{
	char label[64], line[2048], *text;

	if (json_is_string(v))
		text = strdup(json_string_value(v));
	else if (json_is_real(v) && asprintf(&text, "%g", json_real_value(v)) > 0)
		/* As people write it. */;
	else if (json_is_null(v))
		text = strdup("-");
	else
		text = json_dumps(v, JSON_ENCODE_ANY);
	if (text == NULL)
		fatalx("no memory");
	printf("%-20s  %s\n", show_line(name, label, sizeof(label)),
	    show_line(text, line, sizeof(line)));
	free(text);
}

void
object_print(const json_t *answer)
{
	const char *name;
	char text[64];
	json_t *v;

	client_check(answer, "id");
	if (common_options.json) {
		show_json(answer);
		return;
	}
	json_object_foreach ((json_t *)(uintptr_t)answer, name, v) {
		print_member(name, v);
	}
	if (json_object_get(answer, "expires_at") == NULL)
		return;
	printf("%-20s  %s\n", "way out", object_way_out(answer, text));
	printf("%-20s  %s\n", "left", object_left(answer, text));
}

int
object_print_list(const json_t *answer, const json_t *list, int quiet)
{
	const json_t *one;
	char id[64];
	size_t i;

	if (quiet) {
		json_array_foreach (list, i, one) {
			puts(show_line(client_text(one, "id"), id, sizeof(id)));
		}
		return 1;
	}
	if (common_options.json)
		show_json(answer);
	return common_options.json;
}

char *
object_left(const json_t *sandbox, char buf[64])
{
	int64_t at = show_parse_time(client_text(sandbox, "expires_at"));
	char left[SHOW_TIME_MAX];

	snprintf(buf, 64, "%s", at == -1 ? "-" : show_duration(left, at - time(NULL)));
	return buf;
}

char *
object_way_out(const json_t *sandbox, char buf[64])
{
	size_t n = json_array_size(json_object_get(sandbox, "egress_allowlist"));

	if (n > 0)
		snprintf(buf, 64, "list of %zu", n);
	else
		snprintf(buf, 64, "%s",
		    json_is_true(json_object_get(sandbox, "network")) ? "network" : "none");
	return buf;
}

const char *
object_labels(const json_t *sandbox)
{
	static char text[LABELS_MAX];
	json_t *labels = json_object_get(sandbox, "labels"), *v;
	const char *name;
	size_t at = 0;

	text[0] = '\0';
	json_object_foreach (labels, name, v) {
		const char *value = json_string_value(v) != NULL ? json_string_value(v) : "";
		int n = snprintf(
		    text + at, sizeof(text) - at, "%s%s=%s", at > 0 ? " " : "", name, value);

		if (n < 0 || at + (size_t)n >= sizeof(text))
			break;
		at += (size_t)n;
	}
	return text;
}
