/* What the pool did: in the log, and for "agent-sandbox doctor" in a file of the data directory. */
#include <jansson.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/pool.h"
#include "managerd/store.h"

#define REPORT_FILE "pool.json"
#define LOG_US 60000000 /* between two lines about misses for the same reason */

struct kind {
	const char *name, *text;
	uint64_t count;
	uint64_t unsaid;   /* since the last line */
	int64_t logged_us; /* CLOCK_BOOTTIME; 0: never */
};

#define KIND(id, key, what) [id] = {.name = key, .text = what},
static struct kind kinds[POOL_MISS_KINDS] = {POOL_MISSES(KIND)};
static uint64_t hits, misses;
static char written[4096];

void
pool_counts(struct pool_counts *counts)
{
	counts->hits = (int64_t)hits;
	for (size_t i = 0; i < POOL_MISS_KINDS; i++)
		counts->misses[i] = (int64_t)kinds[i].count;
}

void
pool_count_hit(void)
{
	hits++;
}

void
pool_count_miss(const struct spec *spec, enum pool_miss why)
{
	struct kind *kind = &kinds[why];
	int64_t now = time_boot_us();

	misses++;
	kind->count++;
	kind->unsaid++;
	if (kind->logged_us != 0 && now - kind->logged_us < LOG_US)
		return;
	if (kind->unsaid > 1)
		log_info("a sandbox of %s is not from the pool: %s (and %llu others before)",
		    spec->image, kind->text, (unsigned long long)kind->unsaid - 1);
	else
		log_info("a sandbox of %s is not from the pool: %s", spec->image, kind->text);
	kind->unsaid = 0;
	kind->logged_us = now;
}

static json_t *
reasons(void)
{
	json_t *all = json_object();

	for (size_t i = 0; i < POOL_MISS_KINDS; i++)
		if (kinds[i].count > 0)
			json_object_set_new(
			    all, kinds[i].name, json_integer((json_int_t)kinds[i].count));
	return all;
}

void
pool_report(const struct pool_state *states, size_t n)
{
	json_t *list = json_array(), *root;
	char *text;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(
		    list, json_pack("{s:s, s:I, s:I}", "image", states[i].image, "size",
			      (json_int_t)states[i].size, "ready", (json_int_t)states[i].ready));
	root = json_pack("{s:i, s:I, s:I, s:o, s:o}", "version", 1, "hits", (json_int_t)hits,
	    "misses", (json_int_t)misses, "reasons", reasons(), "images", list);
	if (root == NULL || (text = json_dumps(root, JSON_INDENT(1))) == NULL)
		fatalx("pool: out of memory");
	json_decref(root);
	if (strcmp(text, written) != 0 && strlen(text) < sizeof(written) &&
	    store_note(STORE_TOP, REPORT_FILE, text, strlen(text)) == 0)
		strcpy(written, text);
	free(text);
}

void
pool_report_remove(void)
{
	store_remove(STORE_TOP, REPORT_FILE);
}
