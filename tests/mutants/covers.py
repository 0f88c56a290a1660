"""Which tests look at a source: unit tests first, which take a second, then process tests, the likeliest first. The first row that fits counts."""

import fnmatch

# A process test: file, -k, the programs that it starts, if any.
KEYD = ("test_keyd.py", "", "keyd")
KEYD_AUDIT = ("test_keyd_audit.py", "", "keyd")
DOCKERD = ("test_dockerd_proxy.py", "", "dockerd-proxy")
START = ("test_child_start.py", "", "sessiond")
PEERS = ("test_hostile_peers.py", "keyd or dockerd or sessiond", "keyd dockerd-proxy sessiond")
CONFINED = ("test_confinement.py", "keyd or sessiond or dockerd", "all probes")
EGRESS = ("test_egressd.py", "", "egressd")
MANAGER = ("test_managerd_basic.py", "", "managerd")
KEYS = ("test_managerd_keys.py", "", "managerd")
KEYRING = ("test_command_keys.py", "", "agent-sandbox managerd")
SESSION = ("test_sessiond_exec.py", "", "sessiond")
GUEST = ("test_sandbox_init_exec.py", "", "sandbox-init")
PARENT = ("test_parent.py", "", "all")
TLS = ("test_apid_tls.py", "", "all")
HTTP = ("test_apid_http.py", "", "apid")
AUDIT = ("test_command_audit.py", "", "agent-sandbox managerd keyd")
METRICS = ("test_metrics.py", "", "all")
PAGE = ("test_privsep_doc.py", "stale and not changed", "")  # its tables are those of proto
POOL = ("test_managerd_pool.py", "", "managerd")

ROWS = (
    ("keyd/input.c", "keyd_input", (KEYD,)),
    ("keyd/audit.c", "promises", (KEYD_AUDIT, CONFINED)),
    ("keyd/*.c", "keyd_input promises", (KEYD, CONFINED)),
    ("dockerd-proxy/head.c", "http_head", (DOCKERD,)),
    ("dockerd-proxy/*.c", "promises", (DOCKERD, CONFINED)),
    ("common/audit_state.c", "audit_line", (KEYD_AUDIT,)),
    ("common/audit_*.c", "audit_line audit", (AUDIT, KEYD_AUDIT)),
    ("common/base64.c", "base64 apid_http apid_json", ()),
    ("common/chan*.c", "chan chan_rules proto", (KEYD, PEERS)),
    ("common/child*.c", "chan", (START, KEYD, CONFINED)),
    ("common/confine_client.c", "confine_client", (CONFINED,)),
    ("common/confine*.c", "confine confine_parent confine_client filter promises", (KEYD, CONFINED)),
    ("common/crc32.c", "frame", (SESSION,)),
    ("common/frame.c", "frame", (SESSION,)),
    ("common/egress*.c", "egress egress_range egress_box egress_look policy config", (EGRESS,)),
    ("common/ids.c", "ids chan log record store", (MANAGER,)),
    ("common/image_ref.c", "image_ref policy config", (DOCKERD,)),
    ("common/items.c", "pool_list config", (MANAGER,)),
    ("common/pool_list.c", "pool_list config", (POOL,)),
    ("common/keys_*.c", "keys_file keys peer config", (KEYS, KEYRING)),
    ("common/log.c", "log", (START, KEYD)),
    ("common/nft.c", "", (PARENT,)),
    ("common/procfs.c", "procfs", ()),
    ("common/record.c", "record", (SESSION,)),
    ("common/uhttp.c", "http_head", (DOCKERD,)),
    ("proto/apid_keyd.h", "proto chan_rules", (PAGE, KEYD, TLS)),
    ("proto/apid_managerd.h", "proto chan_rules", (PAGE, MANAGER, HTTP)),
    ("proto/managerd_dockerd.h", "proto chan_rules", (PAGE, DOCKERD, MANAGER)),
    ("proto/managerd_egressd.h", "proto chan_rules", (PAGE, EGRESS, MANAGER)),
    ("proto/managerd_sessiond.h", "proto chan_rules", (PAGE, SESSION, MANAGER)),
    ("proto/managerd_keyd.h", "proto chan_rules", (PAGE, KEYD, MANAGER)),
    ("proto/metrics.h", "metrics", (METRICS,)),
    ("proto/parent.h", "proto chan_rules", (PAGE, START, KEYD, PARENT)),
    # What is new and has no row yet.
    ("common/*.c", "chan log ids", (KEYD, DOCKERD, MANAGER)),
    ("proto/*.h", "proto chan_rules", (PAGE, KEYD, DOCKERD, MANAGER)),
)


def of(path):
    """(names of unit tests, process tests)"""
    for pattern, units, proc in ROWS:
        if fnmatch.fnmatch(path, pattern):
            return tuple("test_" + u for u in units.split()), proc
    raise LookupError(f"no tests are named for {path}")
