"""The audit log: how fast it is verified, and what a line costs of the shortest request that has one."""

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

from harness import BUILD
from rows import mid, ms, repeat

HERE = Path(__file__).resolve().parent
OBJECTS = [f"managerd/{n}" for n in ("audit", "audit_log", "audit_file", "audit_closed", "audit_sign", "audit_syslog", "keys", "tenant")]
OBJECTS += [
    f"common/{n}" for n in ("keys_file", "keys_line", "keys_net", "audit_line", "chan", "chan_gate", "chan_event", "ids", "log", "items")
]


def write(path, size):
    prev, seq, had = "0" * 64, 0, 0
    fixed = {"request_id": "req_0123456789abcdef", "key": "ci", "tenant": "default", "peer": "192.0.2.1:12345", "action": "exec"}
    fixed |= {"target": "sb_0123456789abcdef", "status": 200, "duration_us": 1234, "args_sha256": "ab" * 32, "args_len": 17, "exit_code": 0}
    with open(path, "w") as f:
        while had < size:
            seq += 1
            line = json.dumps(fixed | {"time": "2026-01-01T00:00:00.000000Z", "seq": seq, "prev": prev}, separators=(",", ":"))
            prev = hashlib.sha256(line.encode()).hexdigest()
            had += f.write(line + "\n")
    return had


def verify(b):
    """Beside the time that openssl needs to hash the file in one go."""
    path = b.work / "audit.log"
    size = write(path, b.n(256 << 20, 32 << 20))
    limit, ours = [], []
    for _ in range(3):
        for took, command in ((limit, ["openssl", "dgst", "-sha256", path]), (ours, [BUILD / "agent-sandbox", "audit", "verify", path])):
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            took.append(time.perf_counter() - began)
    path.unlink()
    rate, most = size / min(ours) / 1e6, size / min(limit) / 1e6
    b.row("audit verify", f"{most:,.0f} MB/s", f"{rate:,.0f} MB/s", ">= 200 MB/s", rate >= 200, limit_is=most, rate=rate)


def line(b):
    """What writing its line takes of the processor, against the time of `true` back to back."""
    program, folder = b.work / "line", b.work / "lines"
    folder.mkdir(exist_ok=True)
    objects = [BUILD / "obj" / f"{name}.o" for name in OBJECTS]
    libraries = ["-ljansson", "-lcrypto", "-levent_core", "-lbsd"]
    compiler = [os.environ.get("CC", "gcc"), "-O2", "-D_GNU_SOURCE", f"-I{HERE.parents[1]}", "-o", program, HERE / "line.c"]
    subprocess.run([*compiler, *objects, *libraries], check=True)
    took = [int(subprocess.run([program, "20000"], cwd=folder, check=True, capture_output=True).stdout) / 1e9 for _ in range(b.n(5, 2))]
    box, http = b.box(), b.http()
    data = http.request("POST", box.path + "/exec", {"command": ["true"]})
    whole = mid(repeat(b.n(300, 60), 0.0, lambda: http.timed(data)))
    share = 100 * mid(took) / whole
    b.row("line of the audit log", ms(whole), f"{mid(took) * 1e6:.1f} us ({share:.1f} % of exec true)", "<= 5 %", share <= 5, share=share)


ROWS = {"verify": verify, "line": line}
