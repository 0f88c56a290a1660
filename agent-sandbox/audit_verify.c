/* "audit verify": every line as it was written, in its place, none missing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent-sandbox/audit.h"
#include "agent-sandbox/audit_chain.h"
#include "agent-sandbox/audit_keyd.h"
#include "agent-sandbox/client.h"
#include "agent-sandbox/show.h"
#include "common/ids.h"

#define TORN_TRIES 10 /* of what is being written at this moment */
#define TORN_US 50000

struct verify {
	struct chain chain;
	struct audit_files files;
	int64_t from_us, to_us;
	int begun; /* the first line since --since was met */
	/* The place of the line before, when that one is at fault. */
	const char *before_path;
	unsigned long long before_number;
	uint64_t before_seq;
};

/* The first line that is wrong: says so. */
static int
wrong(const struct verify *v, enum chain_fault fault, const char *path, unsigned long long number,
    uint64_t seq)
{
	if (!common_options.json)
		client_failx(EXIT_REFUSED, "%s:%llu: seq %" PRIu64 ": %s: %s", path, number, seq,
		    chain_fault_names[fault], v->chain.why);
	show_json(json_pack("{s:b, s:s, s:I, s:I, s:s, s:s}", "ok", 0, "file", path, "line",
	    (json_int_t)number, "seq", (json_int_t)seq, "fault", chain_fault_names[fault],
	    "message", v->chain.why));
	show_end();
	return EXIT_REFUSED;
}

/* Hash and prev do not fit: which of the two lines is it? The line after them knows. */
static int
which_changed(struct verify *v, struct audit_lines *l, const char *line, size_t len)
{
	char *copy = malloc(len + 1);
	struct audit_end end = {0};
	const char *next;
	size_t next_len;
	int last, intact;

	if (copy == NULL)
		return EXIT_REFUSED;
	memcpy(copy, line, len);
	last = audit_lines_next(l, &next, &next_len) != AUDIT_LINE;
	intact = !last && chain_follows(&v->chain, copy, len, next, next_len);
	audit_line_end(copy, len, &end);
	free(copy);
	if ((intact || last) && v->before_path != NULL)
		return wrong(v, CHAIN_CHANGED, v->before_path, v->before_number, v->before_seq);
	chain_fault(&v->chain, CHAIN_CHANGED,
	    "the line was changed, or put here: it does not follow the one before");
	return wrong(v, CHAIN_CHANGED, l->path, l->number - !last, end.seq);
}

/* Whether the line that is missing is further on in this file. */
static int
comes_later(struct audit_lines *l, uint64_t seq)
{
	struct audit_end end;
	const char *line;
	size_t len;

	while (audit_lines_next(l, &line, &len) == AUDIT_LINE)
		if (audit_line_end(line, len, &end) == 0 && end.seq == seq)
			return 1;
	return 0;
}

/* A gap in the numbers. */
static int
gap(struct verify *v, struct audit_lines *l, uint64_t seq)
{
	unsigned long long number = l->number;

	if (!comes_later(l, v->chain.seq + 1))
		return wrong(v, CHAIN_REMOVED, l->path, number, seq);
	chain_fault(&v->chain, CHAIN_ORDER,
	    "number %" PRIu64 " stands behind %" PRIu64 ", and %" PRIu64 " comes later", seq,
	    v->chain.seq, v->chain.seq + 1);
	return wrong(v, CHAIN_ORDER, l->path, number, seq);
}

/* -1: the line is good. Else the exit status. */
static int
one_line(struct verify *v, struct audit_lines *l, const char *line, size_t len)
{
	struct audit_end end = {0};
	enum chain_fault fault;
	int back;

	if (!v->begun && audit_options.since != NULL &&
	    audit_line_time(line, len) < audit_options.since_us)
		return -1;
	if (!v->begun)
		v->from_us = audit_line_time(line, len);
	v->begun = 1;
	fault = chain_line(&v->chain, line, len, &back);
	if (fault != CHAIN_OK && back)
		return which_changed(v, l, line, len);
	if (fault != CHAIN_OK) {
		audit_line_end(line, len, &end);
		return fault == CHAIN_REMOVED ? gap(v, l, end.seq)
					      : wrong(v, fault, l->path, l->number, end.seq);
	}
	v->before_path = l->path;
	v->before_number = l->number;
	v->before_seq = v->chain.seq;
	return -1;
}

/* A line that a server writes right now is not torn for long. */
static enum audit_read
read_on(struct audit_lines *l, const char **line, size_t *len)
{
	enum audit_read r = audit_lines_next(l, line, len);

	for (int i = 0; r == AUDIT_TORN && i < TORN_TRIES; i++) {
		usleep(TORN_US);
		l->number--;
		r = audit_lines_next(l, line, len);
	}
	return r;
}

static int
one_file(struct verify *v, size_t i)
{
	const char *path = v->files.paths[i];
	struct audit_lines l;
	enum audit_read r;
	const char *line;
	char last[AUDIT_LINE_MAX];
	size_t len, last_len = 0;
	int status = -1;

	audit_lines_open(&l, &v->files, i);
	while (status == -1 && (r = read_on(&l, &line, &len)) != AUDIT_END) {
		if (r != AUDIT_LINE) {
			chain_fault(&v->chain, CHAIN_TORN,
			    r == AUDIT_TORN ? "the line has no end" : "no line is so long");
			status = wrong(v, CHAIN_TORN, path, l.number, v->chain.seq + 1);
		} else
			status = one_line(v, &l, line, len);
		last_len = r == AUDIT_LINE && len <= sizeof(last) ? len : 0;
		memcpy(last, r == AUDIT_LINE ? line : "", last_len);
	}
	if (last_len > 0)
		v->to_us = audit_line_time(last, last_len);
	audit_lines_close(&l);
	return status;
}

/* With --since: the file that begins after it is read only if the one before ends before it. */
static size_t
first_file(const struct audit_files *files)
{
	size_t first = 0;

	for (size_t i = 1; i < files->n && audit_options.since != NULL; i++) {
		struct audit_lines l;
		const char *line;
		size_t len;

		audit_lines_open(&l, files, i);
		if (audit_lines_next(&l, &line, &len) == AUDIT_LINE &&
		    audit_line_time(line, len) < audit_options.since_us)
			first = i;
		audit_lines_close(&l);
	}
	return first;
}

/* Keys were given, and there are lines: one of those keys must have signed some of them. */
static int
check_signed(struct verify *v)
{
	struct chain *c = &v->chain;
	const char *last = v->files.paths[v->files.n - 1];

	if (audit_options.keys.n == 0 || c->checkpoints > 0 || c->lines == 0)
		return -1;
	chain_fault(c, CHAIN_SIGNATURE, "no checkpoint is there, so the key has signed nothing");
	return wrong(v, CHAIN_SIGNATURE, last, v->before_number, c->seq);
}

/* The line that keyd has signed last is not there: the log can only begin right behind it. */
static int
begins_elsewhere(const struct verify *v, const struct audit_keyd *keyd)
{
	const struct chain *c = &v->chain;

	return *c->kept_head == '\0' && v->files.folder != NULL && audit_options.since == NULL &&
	       (c->first != keyd->seq + 1 || strcmp(c->behind_head, keyd->head) != 0);
}

/* What only shows at the end: where the log begins, and where keyd knows it to end. */
static int
check_ends(struct verify *v, const struct audit_keyd *keyd)
{
	struct chain *c = &v->chain;
	const char *last = v->files.paths[v->files.n - 1];

	if (c->behind != 0 && v->files.folder != NULL && audit_options.since == NULL) {
		chain_fault(c, CHAIN_REMOVED,
		    "the log begins here, and no line tells that what was before was removed");
		return wrong(v, CHAIN_REMOVED, v->files.paths[0], 1, c->behind + 1);
	}
	if (!keyd->known || keyd->seq == 0)
		return -1;
	if (keyd->seq > c->seq) {
		chain_fault(c, CHAIN_CUT,
		    "the log ends here, but it was signed up to line %" PRIu64, keyd->seq);
		return wrong(v, CHAIN_CUT, last, v->before_number, c->seq);
	}
	if (begins_elsewhere(v, keyd)) {
		chain_fault(c, CHAIN_REMOVED,
		    "the log begins here, but line %" PRIu64 ", which was signed, is not in it",
		    keyd->seq);
		return wrong(v, CHAIN_REMOVED, v->files.paths[0], 1, c->first);
	}
	if (*c->kept_head != '\0' && strcmp(c->kept_head, keyd->head) != 0) {
		chain_fault(c, CHAIN_RECHAINED,
		    "this is not the line that keyd has signed: something was changed behind line "
		    "%" PRIu64 ", and all lines from there on were made to fit",
		    c->signed_upto);
		return wrong(v, CHAIN_RECHAINED, last, 0, keyd->seq);
	}
	return -1;
}

static int
report(const struct verify *v)
{
	const struct chain *c = &v->chain;
	char from[TIME_TEXT_MAX], to[TIME_TEXT_MAX];

	time_text(from, v->from_us);
	time_text(to, v->to_us);
	if (common_options.json) {
		show_json(json_pack("{s:b, s:I, s:I, s:s, s:s, s:I, s:s?, s:b}", "ok", 1, "lines",
		    (json_int_t)c->lines, "checkpoints", (json_int_t)c->checkpoints, "from", from,
		    "to", to, "signed_upto", (json_int_t)c->signed_upto, "key",
		    *c->signer != '\0' ? c->signer : NULL, "key_known", !c->trusts_first));
		return show_end();
	}
	if (c->lines == 0) {
		printf("no lines\n");
		return show_end();
	}
	printf("%llu lines, %llu checkpoints, from %s to %s, ", c->lines, c->checkpoints, from, to);
	if (*c->signer == '\0')
		printf("not signed\n");
	else
		printf("signed up to line %" PRIu64 " by %s%s\n", c->signed_upto, c->signer,
		    c->trusts_first ? " (give --key to be sure that it is the server's)" : "");
	return show_end();
}

int
audit_verify(char **named, size_t n)
{
	static struct verify v;
	struct audit_keyd keyd;
	int status = -1;

	chain_init(&v.chain);
	audit_files_find(&v.files, named, n);
	audit_keyd_keys(&v.chain, v.files.folder);
	/* Before the lines: those that come meanwhile are behind. */
	audit_keyd_read(&keyd, v.files.folder);
	v.chain.kept = keyd.seq;
	for (size_t i = first_file(&v.files); status == -1 && i < v.files.n; i++)
		status = one_file(&v, i);
	if (status == -1)
		status = check_signed(&v);
	if (status == -1)
		status = check_ends(&v, &keyd);
	if (status == -1)
		status = report(&v);
	audit_files_free(&v.files);
	chain_free(&v.chain);
	return status;
}
