"""The server with rules taken out, for the test of the self-test: which rules there are, where they stand, and which checks must then
say that they are broken. Rules that show in different checks are taken out together, so that one server shows several."""

import ipaddress
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import BUILD, PROGRAMS, ROOT

BODY, EMBED, SECCOMP = "dockerd-proxy/body.c", "dockerd-proxy/embed.c", "etc/seccomp.txt"
RANGES, NAMES, LISTS = "common/egress_range.c", "common/egress.c", "common/egress_list.c"


class Rule:
    """One rule: a text of a source (its blanks as they may be) or a pattern, what stands there without it, and the checks that show
    that it is missing. old None: new comes behind the end."""

    def __init__(self, name, source, old, new, *checks):
        self.name, self.source, self.new, self.checks = name, source, new, checks
        self.old = old if old is None or isinstance(old, re.Pattern) else re.compile(r"\s+".join(map(re.escape, old.split())))

    def take_out(self, text):
        if self.old is None:
            return text + self.new
        text, n = self.old.subn(lambda _: self.new, text, count=1)
        assert n == 1, f"{self.name}: {self.source} has no {self.old.pattern}"
        return text


class Variant:
    """A program without some rules. mode: in which the self-test must find them. more: checks that may be broken, too, since a rule
    is behind several. only: just these are tried, where others would do harm."""

    def __init__(self, name, program, mode, rules, more=(), only=False):
        self.name, self.program, self.mode, self.rules, self.more, self.only = name, program, mode, rules, set(more), only
        self.checks = {c for r in rules for c in r.checks}
        self.dir = None

    def build(self, engine):
        """A folder with all programs, this one changed. ENGINE in what is new is the engine's socket."""
        self.dir = Path(tempfile.mkdtemp(prefix=f"as-without-{self.name}-"))
        self.dir.chmod(0o755)
        texts = {}
        for r in self.rules:
            texts[r.source] = r.take_out(texts.get(r.source) or (ROOT / r.source).read_text()).replace("ENGINE:", f"{engine.sock}:")
        if self.program == "dockerd-proxy":
            texts.setdefault(EMBED, (ROOT / EMBED).read_text())
            texts.setdefault(SECCOMP, (ROOT / SECCOMP).read_text())
        for source, text in texts.items():
            (self.dir / "changed" / source).parent.mkdir(parents=True, exist_ok=True)
            (self.dir / "changed" / source).write_text(text)
        if SECCOMP in texts:
            with open(self.dir / "changed/seccomp.json", "w") as out:
                subprocess.run(["awk", "-f", "etc/seccomp.awk", self.dir / "changed" / SECCOMP], cwd=ROOT, stdout=out, check=True)
        sources = " ".join(s for s in texts if s.endswith(".c"))
        make = ["make", "-s", "--no-print-directory", f"BUILD={BUILD.relative_to(ROOT)}", "without"]
        make += [f"WITHOUT={self.dir}/changed", f"TO={self.dir}/{self.program}", f"PROGRAM={self.program}", f"SOURCES={sources}"]
        if "san-" in BUILD.name:
            make.append("SAN=" + BUILD.name.removeprefix("san-").replace("-", ","))
        p = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, p.stdout + p.stderr
        for name in PROGRAMS:
            # The parent looks for the others beside itself; they may be links.
            if name == "agent-sandboxd":
                shutil.copy(BUILD / name, self.dir / name)
            elif name != self.program:
                os.symlink(BUILD / name, self.dir / name)
        shutil.copy(BUILD / "agent-sandbox", self.dir / "agent-sandbox")
        return self.dir

    def remove(self):
        if self.dir:
            shutil.rmtree(self.dir, ignore_errors=True)


def field(name, new, *checks):
    """A field of a container's HostConfig, the first with this name in the source."""
    return Rule(name, BODY, re.compile(rf'put\(h, "{name}",.*?\);\n', re.S), new, *checks)


LIMITS = Variant("limits", "dockerd-proxy", "none", [
    field("CapDrop", "", "capabilities"),
    field("ReadonlyRootfs", "", "root_read_only"),
    field("PidsLimit", "", "pids_limit"),
    Rule("Memory", BODY, re.compile(r'put\(h, "Memory",.*?\);\s*put\(h, "MemorySwap",.*?\n', re.S), "", "memory_limit"),
    field("NanoCpus", "", "processor_limit"),
    field("Ulimits", "", "own_limits"),
])  # fmt: skip

RIGHTS = Variant("rights", "dockerd-proxy", "none", [
    Rule("no-new-privileges", BODY, '"no-new-privileges:true"', '"no-new-privileges:false"', "no_new_privileges", "set_user_id"),
])  # fmt: skip

NETWORK = Variant("network", "dockerd-proxy", "none", [
    field("NetworkMode", 'put(h, "NetworkMode", json_string(proxy.config->str[CFG_NETWORK_NAME]));\n', "interfaces", "routes", "tcp", "udp"),
], ["dns", "listeners", "metadata", "private_networks", "host"])  # fmt: skip

FILTER = Variant("filter", "dockerd-proxy", "none", [
    Rule("seccomp", BODY, 'json_sprintf("seccomp=%s", proxy.sentry ? embed_seccomp_sentry : embed_seccomp)', 'json_string("seccomp=unconfined")',
         "seccomp", "user_namespaces", "keyrings", "call_arguments", "socket_families"),
], only=True)  # fmt: skip

HOST = Variant("host", "dockerd-proxy", "none", [
    field("IpcMode", 'put(h, "PidMode", json_string("host"));\n', "processes"),
    field("Init", 'put(h, "Binds", json_pack("[s]", "ENGINE:/run/docker.sock"));\n', "sockets"),
], only=True)  # fmt: skip

GROUPS = [
    ("namespaces", "unshare setns", "user_namespaces", "setns"),
    ("mounts", "mount umount2", "mounts"),
    ("new mounts", "open_tree fsopen fsconfig fsmount", "mounts_new"),
    ("root", "chroot", "chroot"),
    ("keyrings", "keyctl add_key request_key", "keyrings"),
    ("io_uring", "io_uring_setup io_uring_enter io_uring_register", "io_uring"),
    ("bpf", "bpf", "bpf"),
    ("perf", "perf_event_open", "perf"),
    ("userfaultfd", "userfaultfd", "userfaultfd"),
    ("file handles", "name_to_handle_at open_by_handle_at", "file_handles"),
    ("clocks", "adjtimex clock_adjtime clock_settime settimeofday", "clocks"),
    ("memory policies", "get_mempolicy set_mempolicy mbind remap_file_pages", "other_calls"),
    ("processes of others", "kcmp move_pages migrate_pages", "ptrace"),
]
CALLS = Variant("calls", "dockerd-proxy", "none", [
    Rule("filter: " + name, SECCOMP, None, f"allow {calls}\n", *checks) for name, calls, *checks in GROUPS
])  # fmt: skip

ARGUMENTS = Variant("arguments", "dockerd-proxy", "none", [
    Rule("filter: clone", SECCOMP, "allow clone if a0&0x7e020000=0", "allow clone if a0&0x0=0", "user_namespaces"),
    Rule("filter: netlink", SECCOMP, "allow socket if a0=16 a2=0", "allow socket if a0=16", "socket_families"),
    Rule("filter: personality", SECCOMP, "allow personality if a0=8", "allow personality if a0&0x0=0", "call_arguments"),
])  # fmt: skip

BYTES = Variant("bytes", "egressd", "list", [
    Rule("TLS server name", "egressd/look.c", "if (r == TLS_NAME && same_host((const char *)name.name, name.len, dialled))",
         "if (r != TLS_BAD)", "proxy_sni", "direct"),
    Rule("Host header", "egressd/look.c", "if (r == HTTP_HOST && same_authority(host.host, host.len, dialled, port) &&",
         "if ((r == HTTP_HOST || same_authority(host.host, host.len, dialled, port)) &&", "proxy_host"),
    Rule("dot before a wildcard's name", LISTS, "name[n - t - 1] == '.' && ", "", "proxy_unlisted"),
    Rule("ports", LISTS, "e->port != 0 ? e->port == port : port == 80 || port == 443;", "port != 0 && e != NULL;", "proxy_ports"),
    Rule("IPv4 in IPv6", RANGES, "else if (memcmp(p, mapped, sizeof(mapped)) == 0)", "else if (n == 5 && p[0] == mapped[0])",
         "proxy_mapped"),
    Rule("numbers are no names", NAMES, "if (label_is_number(label)) {", "if (0 && label_is_number(label)) {", "proxy_spellings"),
    Rule("own addresses", "egressd/own.c", "case RTN_UNICAST:", "case RTN_UNICAST: case RTN_LOCAL:", "proxy_own"),
    Rule("addresses of a name", "egressd/dial.c", "take_address(d, in_turn(r, i));",
         "if (d->ntry < DIAL_TRIES)\n\t\t\td->try[d->ntry++] = *in_turn(r, i);", "proxy_rebinding"),
    Rule("letters of a name", NAMES, "if (!((c >= 'a'", "if (0 && !((c >= 'a'", "proxy_names", "proxy_socks_names"),
], ["proxy_absolute"])  # fmt: skip

MATCH = Variant("match", "egressd", "list", [
    Rule("list", LISTS, "if (egress_port_allowed(&e, port) && entry_has(&e, host))", "if (entry_has(&e, host) || port != 0)",
         "proxy_unlisted", "proxy_ports"),
], only=True)  # fmt: skip


def table():
    """Rows of the addresses that are not public: (network, word, the source's line), in their order."""
    text = (ROOT / RANGES).read_text()
    rows = re.findall(r'^    (\{V[46]\([^\n]*?\), \d+, "([^"]+)", "([^"]+)",\s*"[^"]*"\},\n)', text, re.M)
    assert len(rows) == len(re.findall(r"^    \{V[46]\(", text, re.M)) - 1, "a row that is not understood"
    return [(ipaddress.ip_network(net), word, line) for line, net, word in rows]


def first(rows, address):
    return next((r for r in rows if r[0].version == address.version and address in r[0]), None)


def tried():
    """The addresses that the program inside tries, with the word it wants."""
    text = (ROOT / "selftest/proxy.c").read_text()
    text = text[text.index("ranges4[] = {") : text.index("mapped[] = {")]
    return [(ipaddress.ip_address(a.strip("[]")), word) for a, word in re.findall(r'\{"([^"]+)", "([^"]+)"\}', text)]


def ranges():
    """Variants without rows of that table: those that lie in others apart from those others, so that each is missed as if it
    alone were gone. A few rows only repeat what a wider one says, or what the kernel says of its route there."""
    rows, depth = table(), {}
    for row in rows:
        wider = [r for r in rows if r is not row and r[0].version == row[0].version and row[0].subnet_of(r[0])]
        mine = next((a for a, _ in tried() if first(rows, a) is row), row[0][0])
        behind = first([r for r in rows if r is not row], mine)
        if (behind is None or behind[1] != row[1]) and row[:2] != (ipaddress.ip_network("224.0.0.0/4"), "multicast"):
            depth.setdefault(len(wider), []).append(row)
    out = []
    for level, gone in sorted(depth.items()):
        rules = [
            Rule(f"{net} {word}", RANGES, line, " ", "proxy_ranges4" if net.version == 4 else "proxy_ranges6") for net, word, line in gone
        ]
        out.append(
            Variant(f"ranges{level}", "egressd", "list", rules, ["proxy_mapped", "proxy_absolute", "proxy_socks", "proxy_own"], only=True)
        )
    return out


RANGE_VARIANTS = ranges()
VARIANTS = [LIMITS, RIGHTS, NETWORK, FILTER, HOST, CALLS, ARGUMENTS, BYTES, MATCH]
