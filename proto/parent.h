/*
 * parent <-> each of its programs, and what only managerd may ask of it. The parent is the only one
 * that starts programs; managerd asks it for a sessiond, gets one end of a channel to it, and is
 * told when it is over.
 */
#ifndef PROTO_PARENT_H
#define PROTO_PARENT_H

#include "common/chan.h"
#include "proto/config.h"
#include "proto/metrics.h"

/* Fixed descriptors of an exec'ed program. */
#define FD_LOG 2
#define FD_PARENT 3
/* apid: 4 = managerd, 5 = listening socket, 6 = keyd; managerd: 4 = apid, 5 = dockerd-proxy,
 * 6 = egressd, 7 = keyd; dockerd-proxy, egressd, sessiond: 4 = managerd; keyd: 4 = apid,
 * 5 = managerd. */
#define FD_PEER 4
#define FD_SECOND 5
#define FD_THIRD 6
#define FD_FOURTH 7

#define PARENT_PATH_MAX 1024
#define PARENT_NAME_MAX 64
#define RESOLV_MAX 256
#define TLS_TEXT_MAX 256

/* What to do with a data directory that was copied here from elsewhere. */
enum instance_rule {
	INSTANCE_CHECK, /* refuse it */
	INSTANCE_ADOPT, /* it has moved: keep its identity and its sandboxes */
	INSTANCE_NEW,   /* it is a copy: take a new identity; the sandboxes are the other one's */
};

struct m_setup {
	uint32_t uid;
	uint32_t gid;
	uint32_t extra_gid; /* UINT32_MAX: none */
	uint8_t as_root;
	uint8_t allow_weaker;
	uint8_t partial;    /* the parent's own confinement is weaker than asked */
	uint8_t unfiltered; /* the packet filter rules for sandboxes are not known to be loaded */
	uint32_t log_level;
	uint8_t instance; /* enum instance_rule, for managerd */
	uint8_t log_json;
	uint8_t pad2[2];
}; /* tail: the path of ROOT_DIR / ROOT_SOCKET, or nothing */

struct m_config {
	uint32_t key; /* enum config_key */
	uint8_t pad[4];
	int64_t num;
}; /* tail: the string */

struct m_none {
	uint64_t pad;
};

struct m_ready {
	uint8_t partial;
	uint8_t pad[7];
};

struct m_session {
	uint64_t session; /* chosen by managerd; also the message id */
};

struct m_session_over {
	uint64_t session;
	int32_t status; /* as from waitpid(2) */
	uint32_t pad;
};

/* P_PING: to those that live long, from their P_READY on: is the loop alive? P_STATE: to all, at
 * SIGUSR1: tell the log what you are doing. */
/*     from    message        payload                tail               fd */
#define PARENT_CHILD(X)                                                  \
	X(PARENT, P_SETUP, struct m_setup, PARENT_PATH_MAX, FD_NONE)     \
	X(PARENT, P_CONFIG, struct m_config, CONFIG_STRING_MAX, FD_NONE) \
	X(PARENT, P_START, struct m_none, 0, FD_NONE)                    \
	X(CHILD, P_READY, struct m_ready, 0, FD_NONE)                    \
	X(PARENT, P_PING, struct m_none, 0, FD_NONE)                     \
	X(CHILD, P_PONG, struct m_none, 0, FD_NONE)                      \
	X(PARENT, P_STATE, struct m_none, 0, FD_NONE)

/* For the audit log: what the parent alone knows. */
enum note { NOTE_DIED, NOTE_RELOADED, NOTE_KEPT };
#define NOTE_TEXT_MAX 1536

/* tail: the program; or the files, NUL, and with NOTE_KEPT why they were not read again */
struct m_note {
	uint32_t what;  /* enum note */
	int32_t status; /* NOTE_DIED: as from waitpid(2) */
};

/* P_KEYS: the key file, open for reading; right behind P_START and at SIGHUP. P_SYSLOG: a socket
 * that is connected to it, or none. */
#define PARENT_MANAGERD(X)                                           \
	X(CHILD, P_SESSION_START, struct m_session, 0, FD_NONE)      \
	X(CHILD, P_SESSION_KILL, struct m_session, 0, FD_NONE)       \
	X(PARENT, P_SESSION, struct m_session, 0, FD_MUST)           \
	X(PARENT, P_SESSION_OVER, struct m_session_over, 0, FD_NONE) \
	X(PARENT, P_PARTIAL, struct m_none, 0, FD_NONE)              \
	X(PARENT, P_DRAIN, struct m_none, 0, FD_NONE)                \
	X(PARENT, P_KEYS, struct m_none, 0, FD_MUST)                 \
	X(PARENT, P_NOTE, struct m_note, NOTE_TEXT_MAX, FD_NONE)     \
	X(CHILD, P_SYSLOG_ASK, struct m_none, 0, FD_NONE)            \
	X(PARENT, P_SYSLOG, struct m_none, 0, FD_MAY)

/* To egressd, right behind P_START and whenever they change. tail: addresses of name servers, with
 * commas between. */
#define PARENT_EGRESSD(X) X(PARENT, P_RESOLV, struct m_none, RESOLV_MAX, FD_NONE)

/*
 * Certificates and their keys come in generations: the first at the start, a new one at each
 * SIGHUP. keyd gets the keys and says whether they are good; only then apid gets the certificates,
 * looks whether they fit those keys, and says whether it uses them from now on.
 */
struct m_keyfile {
	uint32_t generation; /* 1 at first, then one more each time */
	uint32_t index;
	uint32_t count; /* of this generation */
	uint32_t pad;
};

/* tail: what is wrong, for the operator, without the name of the file */
struct m_tls_done {
	uint32_t generation;
	uint8_t failed;
	uint8_t index; /* of the file that it is about, or 255 */
	uint8_t pad[2];
};

/* A file of keyd's own in the data directory, to read and write: 0 what it keeps of the audit log,
 * 1 its public key. Both right behind P_START. */
struct m_audit_file {
	uint32_t index;
	uint32_t pad;
};

/* fd: a file to read. P_FORGET: this generation will not be used. */
#define PARENT_KEYD(X)                                              \
	X(PARENT, P_KEYFILE, struct m_keyfile, 0, FD_MUST)          \
	X(PARENT, P_FORGET, struct m_keyfile, 0, FD_NONE)           \
	X(CHILD, P_KEYED, struct m_tls_done, TLS_TEXT_MAX, FD_NONE) \
	X(PARENT, P_AUDIT, struct m_audit_file, 0, FD_MUST)

/* What only the parent can see of the programs; -1: not even it. */
struct m_figures {
	int64_t restarts; /* since the parent was started */
	/* Of each program, in the order of the set PROGRAM of proto/metrics.h. */
	int64_t processes[METRIC_PROGRAMS];
	int64_t memory[METRIC_PROGRAMS]; /* bytes */
	int64_t descriptors[METRIC_PROGRAMS];
};

/* Certificates, then the authority of clients if there is one, then P_TLS: that was all.
 * P_METRICS: the socket of AGENT_SANDBOX_METRICS_LISTEN, which listens. */
#define PARENT_APID(X)                                                 \
	X(PARENT, P_CERT, struct m_keyfile, 0, FD_MUST)                \
	X(PARENT, P_CLIENT_CA, struct m_keyfile, 0, FD_MUST)           \
	X(PARENT, P_TLS, struct m_keyfile, 0, FD_NONE)                 \
	X(CHILD, P_TLS_DONE, struct m_tls_done, TLS_TEXT_MAX, FD_NONE) \
	X(PARENT, P_METRICS, struct m_none, 0, FD_MUST)                \
	X(CHILD, P_ASK_FIGURES, struct m_none, 0, FD_NONE)             \
	X(PARENT, P_FIGURES, struct m_figures, 0, FD_NONE)

enum { PARENT_CHILD_BASE = 0x0100 - 1, PARENT_CHILD(CHAN_X_ENUM) };
enum { PARENT_MANAGERD_BASE = 0x0180 - 1, PARENT_MANAGERD(CHAN_X_ENUM) };
enum { PARENT_EGRESSD_BASE = 0x01c0 - 1, PARENT_EGRESSD(CHAN_X_ENUM) };
enum { PARENT_KEYD_BASE = 0x01d0 - 1, PARENT_KEYD(CHAN_X_ENUM) };
enum { PARENT_APID_BASE = 0x01e0 - 1, PARENT_APID(CHAN_X_ENUM) };
PARENT_CHILD(CHAN_X_ASSERT)
PARENT_MANAGERD(CHAN_X_ASSERT)
PARENT_EGRESSD(CHAN_X_ASSERT)
PARENT_KEYD(CHAN_X_ASSERT)
PARENT_APID(CHAN_X_ASSERT)
PARENT_CHILD(CHAN_X_SEND)
PARENT_MANAGERD(CHAN_X_SEND)
PARENT_EGRESSD(CHAN_X_SEND)
PARENT_KEYD(CHAN_X_SEND)
PARENT_APID(CHAN_X_SEND)

/* dockerd-proxy, sessiond */
static const struct msg_spec parent_child_specs[] = {PARENT_CHILD(CHAN_X_SPEC)};
static const struct chan_proto parent_child_proto __attribute__((unused)) = {
    "parent-child", parent_child_specs, sizeof(parent_child_specs) / sizeof(parent_child_specs[0])};

static const struct msg_spec parent_managerd_specs[] = {
    PARENT_CHILD(CHAN_X_SPEC) PARENT_MANAGERD(CHAN_X_SPEC)};
static const struct chan_proto parent_managerd_proto __attribute__((unused)) = {"parent-managerd",
    parent_managerd_specs, sizeof(parent_managerd_specs) / sizeof(parent_managerd_specs[0])};

static const struct msg_spec parent_egressd_specs[] = {
    PARENT_CHILD(CHAN_X_SPEC) PARENT_EGRESSD(CHAN_X_SPEC)};
static const struct chan_proto parent_egressd_proto __attribute__((unused)) = {"parent-egressd",
    parent_egressd_specs, sizeof(parent_egressd_specs) / sizeof(parent_egressd_specs[0])};

static const struct msg_spec parent_keyd_specs[] = {
    PARENT_CHILD(CHAN_X_SPEC) PARENT_KEYD(CHAN_X_SPEC)};
static const struct chan_proto parent_keyd_proto __attribute__((unused)) = {
    "parent-keyd", parent_keyd_specs, sizeof(parent_keyd_specs) / sizeof(parent_keyd_specs[0])};

static const struct msg_spec parent_apid_specs[] = {
    PARENT_CHILD(CHAN_X_SPEC) PARENT_APID(CHAN_X_SPEC)};
static const struct chan_proto parent_apid_proto __attribute__((unused)) = {
    "parent-apid", parent_apid_specs, sizeof(parent_apid_specs) / sizeof(parent_apid_specs[0])};

#endif
