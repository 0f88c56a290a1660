/* What apid counts (metrics.h). */
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>

#include "apid/apid.h"
#include "apid/gate.h"
#include "apid/managerd.h"
#include "apid/metrics.h"
#include "apid/route.h"
#include "apid/statuses.h"
#include "common/ids.h"

#define LEFT 0 /* in the place of a status: no answer was begun */
#define LABELS_ROOM 192

static const int statuses[] = {
#define METRICS_X_STATUS(status, reason, code, meaning, example) status,
    LEFT, STATUS_TABLE(METRICS_X_STATUS)};
#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

static const char *const methods[] = {
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"};
#define METHODS (sizeof(methods) / sizeof(methods[0]))
#define METHOD_OTHER (METHODS - 1)

/* The last route stands for requests without one. */
static uint64_t answers[ROUTES + 1][METHODS][STATUSES];
static int64_t seconds[ROUTES + 1][METRIC_VALUES];
static uint64_t counts[METRICS_COUNTS];
static int64_t started_us;

void
metrics_start(void)
{
	started_us = time_wall_us();
}

void
metrics_count(enum metrics_count what, uint64_t n)
{
	counts[what] += n;
}

static size_t
status_index(int status)
{
	size_t i = 0;

	while (i + 1 < STATUSES && statuses[i] != status)
		i++;
	return i;
}

void
metrics_request(const struct req *r)
{
	size_t route = route_index(r->route);

	if (r->began_us == 0) /* it never was one */
		return;
	answers[route][r->head.method][status_index(r->status)]++;
	metric_observe(seconds[route], time_boot_us() - r->began_us);
}

void
metrics_refused(int status)
{
	answers[ROUTES][METHOD_OTHER][status_index(status)]++;
}

static void
write_answers(struct evbuffer *out, size_t route)
{
	char labels[LABELS_ROOM], status[16];
	size_t m, s;

	for (m = 0; m < METHODS; m++) {
		for (s = 0; s < STATUSES; s++) {
			if (answers[route][m][s] == 0)
				continue;
			snprintf(status, sizeof(status), "%d", statuses[s]);
			snprintf(labels, sizeof(labels), "route=\"%s\",method=\"%s\",status=\"%s\"",
			    route_pattern(route), methods[m],
			    statuses[s] == LEFT ? "left" : status);
			metrics_value(
			    out, METRIC_requests_total, labels, (int64_t)answers[route][m][s]);
		}
	}
}

static void
write_seconds(struct evbuffer *out, size_t route)
{
	char labels[LABELS_ROOM];
	int i, any = 0;

	for (i = 0; i < METRIC_BUCKET_COUNT; i++)
		any |= seconds[route][i] != 0;
	if (!any)
		return;
	snprintf(labels, sizeof(labels), "route=\"%s\",method=\"%s\"", route_pattern(route),
	    methods[route < ROUTES ? route_method(route) : METHOD_OTHER]);
	metrics_histogram(out, METRIC_request_seconds, labels, seconds[route]);
}

static void
write_requests(struct evbuffer *out)
{
	size_t route;

	metrics_head(out, METRIC_requests_total);
	for (route = 0; route <= ROUTES; route++)
		write_answers(out, route);
	metrics_head(out, METRIC_request_seconds);
	for (route = 0; route <= ROUTES; route++)
		write_seconds(out, route);
}

static void
one(struct evbuffer *out, enum metric metric, int64_t value)
{
	metrics_head(out, metric);
	metrics_value(out, metric, "", value);
}

void
metrics_own(struct evbuffer *out, int managerd_up)
{
	int64_t handshakes[METRIC_VALUES] = {
	    (int64_t)counts[COUNT_HANDSHAKES], (int64_t)counts[COUNT_HANDSHAKES_FAILED]};

	metrics_head(out, METRIC_build_info);
	metrics_value(out, METRIC_build_info, "version=\"" VERSION "\"", 1);
	one(out, METRIC_start_time_seconds, started_us);
	write_requests(out);
	one(out, METRIC_connections, (int64_t)gate_connections());
	one(out, METRIC_connections_limit, (int64_t)apid.conns_max);
	one(out, METRIC_connections_total, (int64_t)counts[COUNT_CONNECTIONS]);
	metrics_head(out, METRIC_tls_handshakes_total);
	metrics_row(out, METRIC_tls_handshakes_total, 0, handshakes, "");
	one(out, METRIC_received_bytes_total, (int64_t)counts[COUNT_RECEIVED]);
	one(out, METRIC_sent_bytes_total, (int64_t)counts[COUNT_SENT]);
	one(out, METRIC_requests_waiting, (int64_t)calls_open());
	one(out, METRIC_managerd_queue, (int64_t)chan_queued(apid.managerd));
	one(out, METRIC_managerd_up, managerd_up);
}
