/* Loads records. What is damaged is left alone and logged: nobody's work is removed because a file
 * is torn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/box.h"
#include "managerd/destroy.h"
#include "managerd/load.h"
#include "managerd/manager.h"
#include "managerd/record.h"
#include "managerd/snap.h"
#include "managerd/store.h"

#define DAMAGED_MAX 4096

static uint64_t damaged[DAMAGED_MAX];
static size_t ndamaged;

int
load_is_damaged(uint64_t sandbox)
{
	size_t i;

	for (i = 0; i < ndamaged; i++)
		if (damaged[i] == sandbox)
			return 1;
	return 0;
}

int
load_any_damaged(void)
{
	return ndamaged > 0;
}

/* Whether name is exactly prefix, an id, suffix. */
static int
name_parse(const char *name, const char *prefix, const char *suffix, uint64_t *id)
{
	char text[STORE_NAME_MAX];
	size_t len = strlen(name), n = strlen(suffix);

	if (len <= n || len - n >= sizeof(text) || strcmp(name + len - n, suffix) != 0)
		return -1;
	memcpy(text, name, len - n);
	text[len - n] = '\0';
	return id_parse(text, prefix, id);
}

static int
is_temporary(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && strcmp(name + len - 4, ".tmp") == 0;
}

static void
box_damaged(uint64_t id, const char *name, const char *why)
{
	log_warnx("sandboxes/%s: %s; its container and volume are left alone", name, why);
	if (ndamaged == DAMAGED_MAX)
		fatal_config("too many damaged records in the data directory");
	damaged[ndamaged++] = id;
}

/* By the wall clock, which after a boot may be years behind: never longer than can be asked for. */
static int64_t
time_left(const struct box *box)
{
	int64_t left = box->expires_us - time_wall_us(), most = CFG(MAX_TIMEOUT_SECONDS) * 1000000;

	return left < most ? left : most;
}

static void
box_load(const char *name, void *arg)
{
	uint64_t id;
	size_t len;
	char *text;
	struct box *box;

	(void)arg;
	if (name_parse(name, "sb_", ".json", &id) == -1) {
		if (is_temporary(name))
			store_remove(STORE_SANDBOXES, name);
		else
			log_warnx("sandboxes/%s is not ours, ignored", name);
		return;
	}
	if ((text = store_read(STORE_SANDBOXES, name, RECORD_JSON_MAX, &len)) == NULL) {
		box_damaged(id, name, strerror(errno));
		return;
	}
	box = box_new(id);
	if (record_box_decode(text, len, box) == -1) {
		box_free(box);
		box_damaged(id, name, "the record is damaged");
	} else if (box->state == BOX_CREATING || box->state == BOX_DESTROYING) {
		box->container[0] = '\0';
	} else {
		if (box->state == BOX_ROLLING_BACK)
			box->state = BOX_RUNNING; /* of the generation that the record names */
		if (box->boot[0] == '\0' || strcmp(box->boot, box_boot) != 0)
			box->deadline_us = time_boot_us() + time_left(box);
		box->container[0] = '\0'; /* the engine's list says it again, or it is gone */
		box_list_loaded(box);
	}
	free(text);
}

static void
snap_load(const char *name, void *arg)
{
	struct snap *snap;
	uint64_t id;
	size_t len;
	char *text;

	(void)arg;
	if (name_parse(name, "snap_", ".tar.zst", &id) == 0)
		return;
	if (name_parse(name, "snap_", ".json", &id) == -1) {
		if (is_temporary(name))
			store_remove(STORE_SNAPSHOTS, name);
		else
			log_warnx("snapshots/%s is not ours, ignored", name);
		return;
	}
	if ((text = store_read(STORE_SNAPSHOTS, name, RECORD_JSON_MAX, &len)) == NULL) {
		log_warn("snapshots/%s", name);
		return;
	}
	snap = snap_new(id);
	if (record_snap_decode(text, len, snap) == -1 || !snapfile_exists(id)) {
		log_warnx(
		    "snapshots/%s: the record is damaged or its file is missing; it is left alone",
		    name);
		snap_free(snap);
	} else {
		snap->record_bytes = len;
		snap_list_loaded(snap);
	}
	free(text);
}

/* A data file whose record was never written, or was removed. */
static void
snap_orphan(const char *name, void *arg)
{
	char record[STORE_NAME_MAX];
	uint64_t id;
	size_t len;
	char *text;

	(void)arg;
	if (name_parse(name, "snap_", ".tar.zst", &id) == -1 || snap_find(id) != NULL)
		return;
	store_name(record, "snap_", id, ".json");
	text = store_read(STORE_SNAPSHOTS, record, RECORD_JSON_MAX, &len);
	if (text == NULL && errno == ENOENT) {
		log_warnx("snapshots/%s: there is no record of it; removed", name);
		store_remove(STORE_SNAPSHOTS, name);
	}
	free(text);
}

static void
box_drop(const char *name, void *arg)
{
	uint64_t id;

	(void)arg;
	if (name_parse(name, "sb_", ".json", &id) == 0)
		store_remove(STORE_SANDBOXES, name);
}

static void
count_one(const char *name, void *arg)
{
	uint64_t id;

	if (name_parse(name, "sb_", ".json", &id) == 0)
		++*(int *)arg;
}

int
load_count(void)
{
	int n = 0;

	if (store_each(STORE_SANDBOXES, count_one, &n) == -1)
		fatal_config("the data directory cannot be read: %s", strerror(errno));
	return n;
}

void
load_records(int foreign)
{
	if (foreign && store_each(STORE_SANDBOXES, box_drop, NULL) == -1)
		fatal_config("the data directory cannot be read: %s", strerror(errno));
	if (store_each(STORE_SANDBOXES, box_load, NULL) == -1 ||
	    store_each(STORE_SNAPSHOTS, snap_load, NULL) == -1 ||
	    store_each(STORE_SNAPSHOTS, snap_orphan, NULL) == -1)
		fatal_config("the data directory cannot be read: %s", strerror(errno));
	box_sort();
	snap_sort();
}

static void
finish_one(struct box *box, void *arg)
{
	(void)arg;
	if (box->state == BOX_CREATING || box->state == BOX_DESTROYING)
		box_discard(box);
}

void
load_finish(void)
{
	box_each(finish_one, NULL);
}
