/*
 * The configuration: one table, from which parsing, --help, docs/CONFIG.md, the manual's section
 * and tests come. The parent reads it (config/settings.h) and sends each program only the
 * rows that it needs.
 */
#ifndef PROTO_CONFIG_H
#define PROTO_CONFIG_H

#include <stdint.h>

/* Who gets a row (bits). The parent has all. */
#define TO_PARENT 0
#define TO_APID 1
#define TO_MANAGERD 2
#define TO_DOCKERD_PROXY 4
#define TO_SESSIOND 8
#define TO_EGRESSD 16
#define TO_KEYD 32
#define TO_ALL 63

#define CONFIG_STRING_MAX 32768

/*
 * Rows: key (AGENT_SANDBOX_ before it makes the name), type, default, min, max, to whom, what it
 * is. Types: INT, BOOL, STR; DEC is a decimal number, kept in units of 1e-9. min and max are for
 * INT, and for DEC in its units.
 */
#define CONFIG_TABLE(X)                                                                           \
	X(API_KEYS, STR, "", 0, 0, TO_MANAGERD,                                                   \
	    "comma-separated API keys, each at least 16 characters; this or KEYS_FILE")           \
	X(INSECURE_NO_AUTH, BOOL, "false", 0, 1, TO_MANAGERD,                                     \
	    "serve without keys, on a loopback address only")                                     \
	X(HOST, STR, "127.0.0.1", 0, 0, TO_APID, "address to listen on")                          \
	X(PORT, INT, "8080", 0, 65535, TO_APID,                                                   \
	    "TCP port to listen on; 0 takes a free one and logs it")                              \
	X(INSECURE_PLAINTEXT, BOOL, "false", 0, 1, TO_PARENT,                                     \
	    "allow an address other than loopback without TLS, because a proxy in front ends it") \
	X(TLS_CERT, STR, "", 0, 0, TO_PARENT | TO_APID,                                           \
	    "comma-separated files of certificates with their chains, in PEM; turns TLS on")      \
	X(TLS_KEY, STR, "", 0, 0, TO_PARENT,                                                      \
	    "comma-separated files of their private keys, in the same order")                     \
	X(TLS_CLIENT_CA, STR, "", 0, 0, TO_PARENT | TO_APID,                                      \
	    "file of authorities whose client certificates are accepted, in PEM")                 \
	X(ALLOWED_HOSTS, STR, "", 0, 0, TO_APID,                                                  \
	    "comma-separated Host values accepted on loopback beside localhost")                  \
	X(MAX_CONNECTIONS, INT, "4096", 8, 16384, TO_APID,                                        \
	    "connections of clients at once; beyond, one that is not served makes room")          \
	X(MAX_CONNECTIONS_PER_ADDRESS, INT, "1024", 0, 16384, TO_APID,                            \
	    "of those, how many one address (IPv6: one /64) may have; more are cut; 0: no limit") \
	X(TRUSTED_PROXIES, STR, "", 0, 0, TO_APID,                                                \
	    "comma-separated addresses and CIDRs of proxies that say who the client is")          \
	X(CORS_ORIGINS, STR, "", 0, 0, TO_APID,                                                   \
	    "comma-separated origins of web pages (https://HOST[:PORT]) that may use the API")    \
	X(DATA_DIR, STR, "data", 0, 0, TO_PARENT,                                                 \
	    "directory of records, snapshots and the audit log")                                  \
	X(DEFAULT_IMAGE, STR, "python:3.12-slim", 0, 0, TO_MANAGERD,                              \
	    "image of a sandbox that names none")                                                 \
	X(ALLOWED_IMAGES, STR, "*", 0, 0, TO_MANAGERD | TO_DOCKERD_PROXY,                         \
	    "comma-separated globs of images that may be used")                                   \
	X(SANDBOX_USER, STR, "1000:1000", 0, 0, TO_DOCKERD_PROXY,                                 \
	    "uid:gid of everything in a sandbox")                                                 \
	X(DOCKER_RUNTIME, STR, "", 0, 0, TO_MANAGERD | TO_DOCKERD_PROXY,                          \
	    "the engine's runtime for sandboxes; empty: its default")                             \
	X(NETWORK_NAME, STR, "agent-sandbox-net", 0, 0, TO_DOCKERD_PROXY,                         \
	    "bridge network of sandboxes with network")                                           \
	X(ALLOW_NETWORK, BOOL, "true", 0, 1, TO_MANAGERD | TO_DOCKERD_PROXY | TO_EGRESSD,         \
	    "whether a sandbox may ask for network")                                              \
	X(MAX_SANDBOXES, INT, "20", 1, 5000, TO_MANAGERD | TO_DOCKERD_PROXY,                      \
	    "sandboxes that may exist at once")                                                   \
	X(DEFAULT_TIMEOUT_SECONDS, INT, "900", 1, 315360000, TO_MANAGERD,                         \
	    "time to live of a sandbox, in seconds")                                              \
	X(MAX_TIMEOUT_SECONDS, INT, "86400", 1, 315360000, TO_MANAGERD | TO_APID,                 \
	    "largest time to live, in seconds")                                                   \
	X(DEFAULT_CPUS, DEC, "1.0", 1000000, 1024000000000, TO_MANAGERD, "CPUs of a sandbox")     \
	X(MAX_CPUS, DEC, "4.0", 1000000, 1024000000000, TO_MANAGERD | TO_DOCKERD_PROXY | TO_APID, \
	    "most CPUs of a sandbox")                                                             \
	X(DEFAULT_MEMORY_MB, INT, "512", 16, 16777216, TO_MANAGERD | TO_DOCKERD_PROXY | TO_APID,  \
	    "memory of a sandbox, in MiB; no swap")                                               \
	X(MAX_MEMORY_MB, INT, "4096", 16, 16777216, TO_MANAGERD | TO_DOCKERD_PROXY | TO_APID,     \
	    "most memory of a sandbox, in MiB")                                                   \
	X(DEFAULT_PIDS_LIMIT, INT, "256", 8, 4194304, TO_MANAGERD,                                \
	    "processes and threads of a sandbox")                                                 \
	X(MAX_PIDS_LIMIT, INT, "4096", 8, 4194304, TO_MANAGERD | TO_DOCKERD_PROXY | TO_APID,      \
	    "most processes of a sandbox")                                                        \
	X(TMP_SIZE_MB, INT, "256", 1, 1048576, TO_DOCKERD_PROXY,                                  \
	    "size of /tmp in a sandbox, in MiB")                                                  \
	X(DEFAULT_EXEC_TIMEOUT_SECONDS, DEC, "60", 1000000, 86400000000000, TO_APID,              \
	    "time limit of a command, in seconds")                                                \
	X(MAX_EXEC_TIMEOUT_SECONDS, DEC, "3600", 1000000, 86400000000000, TO_APID | TO_MANAGERD,  \
	    "largest time limit of a command")                                                    \
	X(MAX_EXEC_OUTPUT_BYTES, INT, "10485760", 1024, 1073741824, TO_APID,                      \
	    "output kept of a command that is not streamed")                                      \
	X(MAX_FILE_BYTES, INT, "52428800", 1, 1099511627776, TO_APID | TO_MANAGERD,               \
	    "largest file to upload or download")                                                 \
	X(MAX_SNAPSHOT_BYTES, INT, "1073741824", 1024, 1099511627776,                             \
	    TO_APID | TO_MANAGERD | TO_SESSIOND, "largest snapshot or archive, in bytes of tar")  \
	X(MAX_SNAPSHOTS, INT, "10000", 1, 1000000, TO_MANAGERD, "snapshots that may exist")       \
	X(REAP_INTERVAL_SECONDS, DEC, "10.0", 10000000, 3600000000000, TO_MANAGERD,               \
	    "how often expired sandboxes are looked for")                                         \
	X(ALLOW_WEAKER, BOOL, "false", 0, 1, TO_ALL,                                              \
	    "start although this kernel lacks a part of the confinement")                         \
	X(DISK_FLOOR_MB, INT, "1024", 0, 1048576, TO_MANAGERD,                                    \
	    "free space below which a sandbox's commands are ended, in MiB")                      \
	X(LOG_LEVEL, STR, "info", 0, 0, TO_ALL, "debug, info, warn or error")                     \
	X(DOCS, BOOL, "true", 0, 1, TO_APID,                                                      \
	    "serve the pages /docs and /console, and /openapi.json")                              \
	X(NETWORK_MODE, STR, "bridge", 0, 0, TO_MANAGERD | TO_DOCKERD_PROXY | TO_EGRESSD,         \
	    "what network: true means: bridge, or proxy (public addresses only, by egressd)")     \
	X(EGRESS_ALLOWLIST, STR, "", 0, 0, TO_MANAGERD | TO_DOCKERD_PROXY | TO_EGRESSD,           \
	    "hosts that sandboxes may reach at most; empty: each asks for its own")               \
	X(EGRESS_CONNECTIONS, INT, "256", 1, 256, TO_EGRESSD,                                     \
	    "connections to the outside of one sandbox at once")                                  \
	X(EGRESS_RATE, INT, "100", 1, 100000, TO_EGRESSD,                                         \
	    "new connections to the outside of one sandbox in a second")                          \
	X(EGRESS_BYTES, INT, "10737418240", 1024, 1099511627776, TO_EGRESSD,                      \
	    "bytes that one sandbox may exchange with the outside, both ways together")           \
	X(EGRESS_IDLE_SECONDS, INT, "300", 1, 86400, TO_EGRESSD,                                  \
	    "after so long without a byte a connection to the outside is ended")                  \
	X(EGRESS_SECONDS, INT, "3600", 1, 604800, TO_EGRESSD,                                     \
	    "longest time of a connection to the outside")                                        \
	X(POOL, STR, "2", 0, 0, TO_MANAGERD | TO_DOCKERD_PROXY,                                   \
	    "sandboxes kept ready: comma-separated IMAGE=N, or N of the default image; 0: none")  \
	X(POOL_MEMORY_MB, INT, "4096", 0, 16777216, TO_MANAGERD | TO_DOCKERD_PROXY,               \
	    "most memory of the sandboxes kept ready, in MiB: fewer are kept if it is less")      \
	X(NODE_IMAGE, STR, "node:20-slim", 0, 0, TO_APID, "image of runs of JavaScript")          \
	X(RUN_TIMEOUT_SECONDS, INT, "30", 1, 300, TO_APID,                                        \
	    "time limit of a run that gives none, in seconds")                                    \
	X(RUN_MEMORY_MB, INT, "0", 0, 16777216, TO_APID,                                          \
	    "memory of a run that gives none, in MiB; 0: as of a sandbox")                        \
	X(RUN_MAX_MEMORY_MB, INT, "0", 0, 16777216, TO_APID,                                      \
	    "most memory of a run, in MiB: who asks for more gets this; 0: as of a sandbox")      \
	X(RUN_OUTPUT_BYTES, INT, "1048576", 1024, 1073741824, TO_APID, "output kept of a run")    \
	X(KEYS_FILE, STR, "", 0, 0, TO_PARENT | TO_MANAGERD,                                      \
	    "file of keys with tenants, scopes and quotas; read again at SIGHUP")                 \
	X(FAILED_KEYS_A_MINUTE, INT, "30", 0, 100000, TO_MANAGERD,                                \
	    "requests with an invalid key that one address may make; 0: any number")              \
	X(AUDIT_MAX_MB, INT, "64", 1, 65536, TO_MANAGERD,                                         \
	    "size at which a file of the audit log is closed and a new one begun, in MiB")        \
	X(AUDIT_KEEP, INT, "0", 0, 1000000, TO_MANAGERD,                                          \
	    "closed files of the audit log that are kept; 0: all")                                \
	X(AUDIT_FULL, STR, "refuse", 0, 0, TO_MANAGERD,                                           \
	    "when the audit log has no room: refuse what changes something, or continue")         \
	X(AUDIT_SYNC, STR, "second", 0, 0, TO_MANAGERD,                                           \
	    "when lines of the audit log are made durable: second (once each), or line")          \
	X(AUDIT_CHECKPOINT_SECONDS, INT, "60", 1, 86400, TO_MANAGERD,                             \
	    "how often keyd signs how far the audit log has come, if it has, in seconds")         \
	X(AUDIT_SYSLOG, BOOL, "false", 0, 1, TO_MANAGERD,                                         \
	    "send a copy of each line of the audit log to /dev/log")                              \
	X(METRICS_LISTEN, STR, "", 0, 0, TO_PARENT | TO_APID | TO_MANAGERD,                       \
	    "loopback ADDRESS:PORT where GET /metrics needs no key; empty: only with one")        \
	X(LOG_FORMAT, STR, "text", 0, 0, TO_PARENT,                                               \
	    "lines of the log as text, or as json, one object each")

enum config_type { CONFIG_INT, CONFIG_BOOL, CONFIG_STR, CONFIG_DEC };

#define CONFIG_X_ENUM(key, type, def, lo, hi, to, doc) CFG_##key,
enum config_key { CONFIG_TABLE(CONFIG_X_ENUM) CONFIG_KEYS };

/* A number is in num; a string in str (never NULL once set up). */
struct config {
	int64_t num[CONFIG_KEYS];
	char *str[CONFIG_KEYS];
};

#endif
