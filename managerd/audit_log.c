/* Lines of the audit log, see audit_log.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/ids.h"
#include "common/log.h"
#include "managerd/audit_file.h"
#include "managerd/audit_log.h"
#include "managerd/audit_sign.h"
#include "managerd/audit_syslog.h"

static struct audit_rules rules;
static struct audit_stats stats;
static int full;      /* no space for what may come */
static uint64_t lost; /* lines that could not be written, of which no line tells yet */
static char lost_since[TIME_TEXT_MAX];
static int64_t dirty_since; /* boot time of the oldest line that is not durable; 0: none */
static off_t rotate_at;

/* Takes the entry. Whole or not at all. */
static int
append(json_t *entry)
{
	char when[TIME_TEXT_MAX], text[AUDIT_LINE_MAX + 1];
	size_t len;
	int rc;

	if (entry == NULL)
		fatalx("audit: out of memory");
	json_object_set_new(entry, "time", json_string(time_text(when, time_wall_us())));
	json_object_set_new(entry, "seq", json_integer((json_int_t)audit_file.seq + 1));
	json_object_set_new(entry, "prev", json_string(audit_file.head));
	len = json_dumpb(entry, text, AUDIT_LINE_MAX, JSON_COMPACT);
	json_decref(entry);
	if (len == 0 || len > AUDIT_LINE_MAX)
		fatalx("audit: a line that cannot be written");
	if ((rc = audit_file_append(text, len)) == -1)
		return -1;
	stats.lines++;
	stats.bytes += len + 1;
	if (dirty_since == 0)
		dirty_since = time_boot_us();
	audit_syslog_copy(text, len);
	if (rules.sync_each)
		audit_log_sync();
	return 0;
}

/* The line about the lost ones comes before the next one. */
static int
tell_lost(void)
{
	json_t *gap;

	if (lost == 0)
		return 0;
	gap = json_pack("{s:s, s:I, s:s?}", "action", "gap", "lost", (json_int_t)lost, "since",
	    lost_since[0] == '\0' ? NULL : lost_since);
	if (append(gap) == -1)
		return -1;
	log_warnx(
	    "the audit log can be written again; %llu lines were lost", (unsigned long long)lost);
	lost = 0;
	audit_log_sync();
	audit_sign_lost(0);
	return 0;
}

static void
count_lost(void)
{
	if (lost++ == 0) {
		log_warnx("the audit log cannot be written: lines are lost");
		time_text(lost_since, time_wall_us());
	}
	stats.lost++;
	audit_sign_lost(lost);
}

/* The one that goes has its line first: what it ended with is known from then on. What keyd has
 * signed last must be there at the next start, so none goes that reaches beyond it. */
static void
drop_oldest(void)
{
	char head[AUDIT_HASH_TEXT], name[AUDIT_CLOSED_MAX];
	uint64_t first, upto = 0;
	size_t count;

	while (rules.keep > 0 && audit_file_oldest(&first, &count) == 0 &&
	       count > (size_t)rules.keep) {
		audit_closed_name(name, first);
		if (audit_file_last(first, &upto, head) == 0 && !audit_sign_has(upto))
			return; /* when the next file is closed */
		if (audit_file_last(first, &upto, head) == -1 ||
		    append(json_pack("{s:s, s:s, s:I, s:s}", "action", "removed", "target", name,
			"upto", (json_int_t)upto, "head", head)) == -1 ||
		    audit_log_sync() == -1 || audit_file_remove(first) == -1) {
			log_warn("%s cannot be removed", name);
			return;
		}
	}
}

static void
rotate(void)
{
	rotate_at = audit_file.size + AUDIT_RESERVE; /* when this fails it is tried again there */
	if (audit_file_next() == -1 || append(json_pack("{s:s}", "action", "rotated")) == -1 ||
	    audit_file_rotate() == -1) {
		log_warn("the audit log cannot begin a new file");
		return;
	}
	rotate_at = (off_t)rules.max_bytes;
	dirty_since = 0;
	drop_oldest();
	audit_sign_soon();
}

/* Whether there is room by now. */
static void
look_for_room(void)
{
	int before = full;

	full = !audit_file_reserve();
	if (full && !before)
		log_warnx("the audit log has no room%s",
		    rules.refuse ? ": what changes something is refused" : "");
	else if (!full && before)
		log_info("the audit log has room again");
	if (!full)
		tell_lost();
}

uint64_t
audit_log_put(json_t *entry)
{
	if (audit_file.size >= rotate_at)
		rotate();
	if (lost > 0 && (full || tell_lost() == -1)) {
		json_decref(entry);
		count_lost();
		return 0;
	}
	if (append(entry) == -1) {
		count_lost();
		return 0;
	}
	if (audit_file.reserved - audit_file.size < AUDIT_RESERVE)
		look_for_room();
	return audit_file.seq;
}

int
audit_log_sync(void)
{
	if (dirty_since == 0)
		return 0;
	if (fdatasync(audit_file.fd) == -1) {
		log_warn("the audit log");
		return -1;
	}
	dirty_since = 0;
	return 0;
}

void
audit_log_tick(void)
{
	audit_log_sync();
	look_for_room();
}

int
audit_stuck(void)
{
	return full || lost > 0;
}

int
audit_refuses(int makes_room)
{
	if (!rules.refuse || !audit_stuck())
		return 0;
	look_for_room(); /* nobody is refused for what was a moment ago */
	if (makes_room && lost == 0 && audit_file.reserved - audit_file.size > AUDIT_RESERVE / 4)
		return 0;
	return audit_stuck();
}

void
audit_stats(struct audit_stats *out)
{
	*out = stats;
	out->checkpoints = audit_sign_count();
	out->syslog_lost = audit_syslog_lost();
	out->lag_us = dirty_since == 0 ? 0 : time_boot_us() - dirty_since;
	out->stuck = audit_stuck();
}

void
audit_log_open(const struct audit_rules *r, struct event_base *base)
{
	size_t torn = audit_file_open();

	rules = *r;
	audit_syslog_open(rules.syslog_ask);
	rotate_at = (off_t)rules.max_bytes;
	full = !audit_file_reserve();
	lost = audit_sign_open(r, base);
	if (torn > 0)
		audit_log_put(
		    json_pack("{s:s, s:I}", "action", "recovered", "torn_bytes", (json_int_t)torn));
}
