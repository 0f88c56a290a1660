/* The text format of Prometheus (metrics.h): numbers in, lines out. */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#include "apid/metrics.h"
#include "common/chan.h"
#include "common/items.h"
#include "proto/apid_managerd.h"

#define LABELS_ROOM (METRIC_TEXT_MAX + 128)
#define MILLION 1000000

enum type { COUNTER, GAUGE, HISTOGRAM };
enum unit { ONE, MICRO };

static const struct row {
	const char *name, *help;
	uint8_t who, type, unit, set, text;
} rows[METRICS] = {
#define METRICS_X_ROW(who, name, type, unit, set, text, help) \
	{#name, help, who, type, unit, METRIC_SET_##set, METRIC_TEXT_##text},
    METRIC_TABLE(METRICS_X_ROW)};

static const struct {
	const char *label, *values;
} sets[METRIC_SET_COUNT] = {
#define METRICS_X_SET(id, label, values) {label, values},
    METRIC_SETS(METRICS_X_SET)};

static const char *const texts[METRIC_TEXT_COUNT] = {
#define METRICS_X_TEXT(id, label) label,
    METRIC_TEXTS(METRICS_X_TEXT)};

static const char *const bounds[METRIC_BUCKET_COUNT] = {
#define METRICS_X_BOUND(us, text) text,
    METRIC_BUCKETS(METRICS_X_BOUND) "+Inf"};

void
metrics_head(struct evbuffer *out, enum metric metric)
{
	static const char *const types[] = {"counter", "gauge", "histogram"};
	const struct row *row = &rows[metric];

	evbuffer_add_printf(out, "# HELP " METRIC_PREFIX "%s %s\n# TYPE " METRIC_PREFIX "%s %s\n",
	    row->name, row->help, row->name, types[row->type]);
}

static void
line(struct evbuffer *out, const char *name, const char *suffix, const char *labels, int64_t value,
    enum unit unit)
{
	evbuffer_add_printf(out, METRIC_PREFIX "%s%s%s%s%s ", name, suffix,
	    *labels != '\0' ? "{" : "", labels, *labels != '\0' ? "}" : "");
	if (unit == ONE)
		evbuffer_add_printf(out, "%lld\n", (long long)value);
	else
		evbuffer_add_printf(
		    out, "%lld.%06d\n", (long long)(value / MILLION), (int)(value % MILLION));
}

void
metrics_value(struct evbuffer *out, enum metric metric, const char *labels, int64_t value)
{
	line(out, rows[metric].name, "", labels, value, rows[metric].unit);
}

void
metrics_histogram(struct evbuffer *out, enum metric metric, const char *labels,
    const int64_t value[METRIC_VALUES])
{
	const char *name = rows[metric].name;
	char more[LABELS_ROOM + 32];
	int64_t sum = 0;
	int i;

	for (i = 0; i < METRIC_BUCKET_COUNT; i++) {
		sum += value[i];
		snprintf(more, sizeof(more), "%s,le=\"%s\"", labels, bounds[i]);
		line(out, name, "_bucket", more, sum, ONE);
	}
	line(out, name, "_sum", labels, value[METRIC_BUCKET_COUNT], rows[metric].unit);
	line(out, name, "_count", labels, sum, ONE);
}

static size_t
set_size(enum metric_set set)
{
	const char *values = sets[set].values;
	size_t n = 0, len;

	while (items_next(&values, &len) != NULL)
		n++;
	return n;
}

static void
labels_of(char labels[LABELS_ROOM], const struct row *row, uint32_t item, const char *text)
{
	const char *values = sets[row->set].values, *value = NULL;
	size_t len = 0, n = 0;

	labels[0] = '\0';
	if (row->set != METRIC_SET_NONE) {
		while ((value = items_next(&values, &len)) != NULL && item-- > 0)
			;
		n = (size_t)snprintf(labels, LABELS_ROOM, "%s=\"%.*s\"", sets[row->set].label,
		    (int)len, value != NULL ? value : "");
	}
	if (row->text != METRIC_TEXT_NONE)
		snprintf(labels + n, LABELS_ROOM - n, "%s%s=\"%s\"", n > 0 ? "," : "",
		    texts[row->text], text);
}

void
metrics_row(
    struct evbuffer *out, enum metric metric, uint32_t item, const int64_t *value, const char *text)
{
	const struct row *row = &rows[metric];
	char labels[LABELS_ROOM];
	size_t i, n = row->set == METRIC_SET_NONE ? 1 : set_size(row->set);

	if (row->type == HISTOGRAM) {
		labels_of(labels, row, item, text);
		metrics_histogram(out, metric, labels, value);
		return;
	}
	for (i = 0; i < n; i++) {
		if (value[i] < 0)
			continue;
		labels_of(labels, row, (uint32_t)i, text);
		metrics_value(out, metric, labels, value[i]);
	}
}

/* Printable ASCII without what ends or escapes a label's value: as names of tenants and images are.
 */
static int
is_label(const char *text, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (text[i] < 0x21 || text[i] > 0x7e || text[i] == '"' || text[i] == '\\')
			return 0;
	}
	return n > 0 && n <= METRIC_TEXT_MAX;
}

/* Whether it comes behind the last one. */
static int
is_next(const struct metrics_part *last, const struct m_metric *m, const char *text)
{
	if (!last->any || m->metric != last->metric)
		return !last->any || m->metric > last->metric;
	if (m->item != last->item)
		return m->item > last->item;
	return strcmp(text, last->text) > 0;
}

static int
values_fit(const struct row *row, const int64_t *value)
{
	size_t i, n = row->type == HISTOGRAM        ? METRIC_VALUES
		      : row->set == METRIC_SET_NONE ? 1
						    : set_size(row->set);

	for (i = 0; i < METRIC_VALUES; i++) {
		if (value[i] < 0 || value[i] > METRIC_VALUE_MAX || (i >= n && value[i] != 0))
			return 0;
	}
	return 1;
}

const char *
metrics_take(struct metrics_part *part, struct evbuffer *out, const struct m_metric *m,
    const char *text, size_t n)
{
	const struct row *row;

	if (m->metric >= METRICS || rows[m->metric].who != MANAGERD)
		return "a metric that is not its own";
	row = &rows[m->metric];
	if (row->type == HISTOGRAM ? m->item >= set_size(row->set) : m->item != 0)
		return "a metric of what there is not";
	if (row->text == METRIC_TEXT_NONE ? n != 0 : !is_label(text, n))
		return "a metric with a strange label";
	if (!is_next(part, m, text))
		return "metrics out of order";
	if (!values_fit(row, m->value))
		return "a metric with a strange value";
	if (!part->any || part->metric != m->metric)
		metrics_head(out, m->metric);
	part->any = 1;
	part->metric = m->metric;
	part->item = m->item;
	memcpy(part->text, text, n + 1);
	metrics_row(out, m->metric, m->item, m->value, text);
	return NULL;
}
