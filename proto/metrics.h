/*
 * What is measured: one table, from which GET /metrics, docs/METRICS.md and tests come. managerd
 * sends its numbers as numbers (METRIC in proto/apid_managerd.h), and only apid makes text of them,
 * so that nothing which managerd says can be taken for another metric.
 */
#ifndef PROTO_METRICS_H
#define PROTO_METRICS_H

#include <stdint.h>

#define METRIC_PREFIX "agent_sandbox_"

/* Labels with a fixed set of values: X(set, name of the label, values with commas between). Those
 * of ROUTE and ANSWER are apid's tables. */
#define METRIC_SETS(X)                                                                     \
	X(NONE, "", "")                                                                    \
	X(VERSION, "version", "")                                                          \
	X(ROUTE, "route,method", "")                                                       \
	X(ANSWER, "route,method,status", "")                                               \
	X(RESULT, "result", "ok,failed")                                                   \
	X(STATE, "state", "creating,running,stopped,rolling_back,destroying")              \
	X(REASON, "reason", "image,empty,network,egress,rootfs,memory,limits,update,lost") \
	X(CALL, "call", "prepare,create,attach,inspect,destroy,update,rename,list,ping")   \
	X(VERDICT, "verdict", "let_out,refused,failed")                                    \
	X(PROGRAM, "program", "apid,managerd,dockerd-proxy,egressd,keyd,sessiond,agent-sandboxd")

/* And one whose values are names: of tenants, the first METRIC_TENANTS that the server has heard
 * of, the rest as "other"; of the images of the pool. */
#define METRIC_TEXTS(X)     \
	X(NONE, "")         \
	X(TENANT, "tenant") \
	X(IMAGE, "image")
#define METRIC_TENANTS 64
#define METRIC_REST "other"
#define METRIC_TEXT_MAX 512 /* bytes */

/* Seconds are kept in millionths. Rows: who knows it, name (METRIC_PREFIX before it), type, unit,
 * labels: set and text, meaning. */
#define METRIC_TABLE(X)                                                                            \
	X(APID, build_info, GAUGE, ONE, VERSION, NONE, "Always 1; the version of the server.")     \
	X(APID, start_time_seconds, GAUGE, MICRO, NONE, NONE,                                      \
	    "When the programs were last started, in seconds since 1970.")                         \
	X(APID, requests_total, COUNTER, ONE, ANSWER, NONE,                                        \
	    "Requests that are over. route is a pattern, or other where there is none; status is " \
	    "that of the answer, or left when the client went away before it.")                    \
	X(APID, request_seconds, HISTOGRAM, MICRO, ROUTE, NONE,                                    \
	    "From the head of a request to the last byte of its answer.")                          \
	X(APID, connections, GAUGE, ONE, NONE, NONE, "Connections of clients now.")                \
	X(APID, connections_limit, GAUGE, ONE, NONE, NONE, "How many there may be at once.")       \
	X(APID, connections_total, COUNTER, ONE, NONE, NONE, "Connections that were accepted.")    \
	X(APID, tls_handshakes_total, COUNTER, ONE, RESULT, NONE, "Handshakes of TLS.")            \
	X(APID, received_bytes_total, COUNTER, ONE, NONE, NONE,                                    \
	    "Bytes from clients, without what TLS adds.")                                          \
	X(APID, sent_bytes_total, COUNTER, ONE, NONE, NONE,                                        \
	    "Bytes to clients, without what TLS adds.")                                            \
	X(APID, requests_waiting, GAUGE, ONE, NONE, NONE,                                          \
	    "Questions to managerd that are not answered.")                                        \
	X(APID, managerd_queue, GAUGE, ONE, NONE, NONE,                                            \
	    "Messages to managerd that its socket has no room for yet.")                           \
	X(APID, managerd_up, GAUGE, ONE, NONE, NONE,                                               \
	    "1; 0 when managerd did not answer in time, and its metrics are missing.")             \
	X(PARENT, restarts_total, COUNTER, ONE, NONE, NONE,                                        \
	    "How often all programs were started again because one had died.")                     \
	X(PARENT, program_processes, GAUGE, ONE, PROGRAM, NONE, "Processes of a program.")         \
	X(PARENT, program_memory_bytes, GAUGE, ONE, PROGRAM, NONE,                                 \
	    "Resident memory of a program, of all its processes.")                                 \
	X(PARENT, program_descriptors, GAUGE, ONE, PROGRAM, NONE,                                  \
	    "Open descriptors of a program. Missing where the parent may not count them: not "     \
	    "started by root, or without CAP_SYS_PTRACE.")                                         \
	X(MANAGERD, confinement_partial, GAUGE, ONE, NONE, NONE,                                   \
	    "1 when a part of the separation between the programs is missing on this host.")       \
	X(MANAGERD, sandboxes, GAUGE, ONE, STATE, TENANT, "Sandboxes.")                            \
	X(MANAGERD, sandboxes_limit, GAUGE, ONE, NONE, NONE, "How many there may be at once.")     \
	X(MANAGERD, sessions, GAUGE, ONE, NONE, NONE,                                              \
	    "Sessions with a sandbox, or with one of the pool.")                                   \
	X(MANAGERD, commands, GAUGE, ONE, NONE, TENANT,                                            \
	    "Commands that run, or wait for their sandbox.")                                       \
	X(MANAGERD, snapshots, GAUGE, ONE, NONE, TENANT, "Snapshots.")                             \
	X(MANAGERD, snapshot_bytes, GAUGE, ONE, NONE, TENANT,                                      \
	    "What they take on the disk, with their records.")                                     \
	X(MANAGERD, pool_size, GAUGE, ONE, NONE, IMAGE, "Sandboxes that are to be kept ready.")    \
	X(MANAGERD, pool_ready, GAUGE, ONE, NONE, IMAGE, "Sandboxes that are ready.")              \
	X(MANAGERD, pool_hits_total, COUNTER, ONE, NONE, NONE,                                     \
	    "Sandboxes that came from the pool.")                                                  \
	X(MANAGERD, pool_misses_total, COUNTER, ONE, REASON, NONE,                                 \
	    "Sandboxes that did not, and why (docs/POOL.md).")                                     \
	X(MANAGERD, engine_up, GAUGE, ONE, NONE, NONE, "1 when the engine answers.")               \
	X(MANAGERD, engine_calls, GAUGE, ONE, NONE, NONE,                                          \
	    "Calls of the engine that are not answered.")                                          \
	X(MANAGERD, engine_call_seconds, HISTOGRAM, MICRO, CALL, NONE,                             \
	    "How long calls of the engine took.")                                                  \
	X(MANAGERD, engine_failures_total, COUNTER, ONE, CALL, NONE,                               \
	    "Calls that the engine failed; not those that asked for what may not be.")             \
	X(MANAGERD, egress_connections_total, COUNTER, ONE, VERDICT, NONE,                         \
	    "Connections that left sandboxes, or were not let out.")                               \
	X(MANAGERD, audit_lines_total, COUNTER, ONE, NONE, NONE, "Lines of the audit log.")        \
	X(MANAGERD, audit_bytes_total, COUNTER, ONE, NONE, NONE, "Their bytes.")                   \
	X(MANAGERD, audit_lost_total, COUNTER, ONE, NONE, NONE,                                    \
	    "Lines of the audit log that found no room on the disk.")                              \
	X(MANAGERD, audit_checkpoints_total, COUNTER, ONE, NONE, NONE,                             \
	    "Signed checkpoints of the audit log.")                                                \
	X(MANAGERD, audit_syslog_lost_total, COUNTER, ONE, NONE, NONE,                             \
	    "Copies of its lines that syslog did not take.")                                       \
	X(MANAGERD, audit_lag_seconds, GAUGE, MICRO, NONE, NONE,                                   \
	    "Age of its oldest line that is not durable yet.")                                     \
	X(MANAGERD, audit_stuck, GAUGE, ONE, NONE, NONE, "1 when it cannot be written.")

/* Upper bounds of the buckets of every histogram: X(millionths of a second, as text). */
#define METRIC_BUCKETS(X) \
	X(1000, "0.001")  \
	X(2500, "0.0025") \
	X(5000, "0.005")  \
	X(10000, "0.01")  \
	X(25000, "0.025") \
	X(50000, "0.05")  \
	X(100000, "0.1")  \
	X(250000, "0.25") \
	X(500000, "0.5")  \
	X(1000000, "1")   \
	X(2500000, "2.5") \
	X(5000000, "5")   \
	X(10000000, "10") \
	X(30000000, "30") \
	X(60000000, "60")
#define METRIC_BUCKET_COUNT 16 /* with that of all the rest */

/* Of one metric: the value of each item of its set; of a histogram: how many were in each bucket,
 * then their sum. */
#define METRIC_VALUES (METRIC_BUCKET_COUNT + 1)
#define METRIC_VALUE_MAX ((int64_t)1 << 53) /* what a double holds without loss */

#define METRIC_X_ENUM(who, name, type, unit, set, text, help) METRIC_##name,
enum metric { METRIC_TABLE(METRIC_X_ENUM) METRICS };
#define METRIC_X_SET(id, label, values) METRIC_SET_##id,
enum metric_set { METRIC_SETS(METRIC_X_SET) METRIC_SET_COUNT };
#define METRIC_X_TEXT(id, label) METRIC_TEXT_##id,
enum metric_text { METRIC_TEXTS(METRIC_X_TEXT) METRIC_TEXT_COUNT };

/* In the order of the set CALL. */
enum metric_call {
	METRIC_CALL_PREPARE,
	METRIC_CALL_CREATE,
	METRIC_CALL_ATTACH,
	METRIC_CALL_INSPECT,
	METRIC_CALL_DESTROY,
	METRIC_CALL_UPDATE,
	METRIC_CALL_RENAME,
	METRIC_CALL_LIST,
	METRIC_CALL_PING,
	METRIC_CALLS
};

#define METRIC_PROGRAMS 7 /* in the set PROGRAM */

/* Adds one that took so long to a histogram. */
static inline void
metric_observe(int64_t value[METRIC_VALUES], int64_t us)
{
#define METRIC_X_BOUND(bound, text) bound,
	static const int64_t bounds[] = {METRIC_BUCKETS(METRIC_X_BOUND)};
	int i = 0;

	if (us < 0)
		us = 0;
	while (i < METRIC_BUCKET_COUNT - 1 && us > bounds[i])
		i++;
	value[i]++;
	value[METRIC_VALUES - 1] += us;
}

#endif
