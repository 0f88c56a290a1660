/* What apid counts of itself, and GET /metrics, where managerd's and the parent's numbers come
 * together. */
#ifndef APID_METRICS_H
#define APID_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/metrics.h"

struct evbuffer;
struct m_figures;
struct m_metric;
struct req;

enum metrics_count {
	COUNT_CONNECTIONS,
	COUNT_HANDSHAKES,
	COUNT_HANDSHAKES_FAILED,
	COUNT_RECEIVED,
	COUNT_SENT,
	METRICS_COUNTS
};

/* metrics.c */
void metrics_start(void);
void metrics_count(enum metrics_count, uint64_t n);
/* The request is over; it still knows its route. */
void metrics_request(const struct req *);
/* What came was no request: it was answered with this status, and its connection ends. */
void metrics_refused(int status);
/* apid's part of the page. */
void metrics_own(struct evbuffer *, int managerd_up);

/* metrics_text.c: writes the text format of Prometheus, version 0.0.4. Pure. */
struct metrics_part {
	uint32_t metric, item; /* of the last one */
	int any;
	char text[METRIC_TEXT_MAX + 1];
};
/* The lines that tell what it is, before its first value. */
void metrics_head(struct evbuffer *, enum metric);
/* labels: as they stand between the braces, or "". */
void metrics_value(struct evbuffer *, enum metric, const char *labels, int64_t value);
void metrics_histogram(
    struct evbuffer *, enum metric, const char *labels, const int64_t value[METRIC_VALUES]);
/* The values of a metric of the table, each of its set; those below 0 are not known. text: of its
 * other label, or "". */
void
metrics_row(struct evbuffer *, enum metric, uint32_t item, const int64_t *value, const char *text);
/*
 * Adds what managerd says to what it has said before. NULL, or why it cannot be taken: nothing of
 * it may be mistaken for another metric, stand twice, or be no number.
 */
const char *metrics_take(
    struct metrics_part *, struct evbuffer *, const struct m_metric *, const char *text, size_t n);

/* metrics_get.c: the parent has answered. */
void metrics_figures(const struct m_figures *);

/* gate_metrics.c: the socket of AGENT_SANDBOX_METRICS_LISTEN. Takes fd. */
void gate_metrics_open(int fd);
void gate_metrics_close(void);

#endif
