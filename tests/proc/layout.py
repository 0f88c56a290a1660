"""The contracts in proto/ for Python: constants, structs, message tables, channels, records, frames, and a program
under test. Nothing is written down twice: all numbers and sizes are read from the headers (test_layout.py compares them
with what the C compiler says).

    with layout.Program("sessiond", ["chan"]) as p:             # fd 4 is a channel, whose other end is p.peers[0]
        p.peers[0].send("S_END", 1, {"reason": layout.END_SHUTDOWN})
        m = p.peers[0].recv(timeout=5)                           # m.name, m.id, m.fields, m.tail, m.fd
        m = p.peers[0].expect("S_JOB_END")                       # fails on any other message

    layout.pack("m_id", {"id": 7})   layout.unpack("m_id", data)   layout.MSG["GET"]   layout.RECORD_DONE
"""

import array
import contextlib
import decimal
import os
import pwd
import re
import signal
import socket
import stat
import struct
import tempfile
import threading
import time
import zlib
from collections import namedtuple
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("AS_TEST_BUILD", ROOT / "build"))

INTEGERS = {
    "uint8_t": "B",
    "int8_t": "b",
    "uint16_t": "H",
    "int16_t": "h",
    "uint32_t": "I",
    "int32_t": "i",
    "uint64_t": "Q",
    "int64_t": "q",
    "char": "c",
}

Field = namedtuple("Field", "name type count offset size")  # count is None when it is no array
Struct = namedtuple("Struct", "name fields size align")
Row = namedtuple("Row", "sender name struct tail fd number")
ConfigRow = namedtuple("ConfigRow", "key type default min max to doc number")
Message = namedtuple("Message", "name id fields tail fd")

HEADERS = sorted((ROOT / "proto").glob("*.h"))
CONST = {"UINT32_MAX": 2**32 - 1, "UINT64_MAX": 2**64 - 1, "INT64_MAX": 2**63 - 1}
STRUCTS = {}
TABLES = {}  # "APID_MANAGERD": [Row]
MSG = {}  # message name: number
ROWS = {}  # number: Row
CONFIG = {}  # key: ConfigRow


def number(text):
    """The value of a C integer expression of known constants."""
    text = re.sub(r"\b(\d+|0x[0-9a-fA-F]+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"U?INT\d+_C\((.*?)\)", r"(\1)", text)
    if not re.fullmatch(r"[\w\s()+*/<>|&-]+", text):
        raise ValueError(text)
    return eval(text.strip().replace("/", "//"), {"__builtins__": {}}, CONST)  # noqa: S307 - our own headers


def split_args(text):
    """A, "b, c", d  ->  three items."""
    return [a.strip() for a in re.findall(r'(?:"(?:[^"\\]|\\.)*"|[^,"])+', text)]


def rows_of(body):
    return [split_args(m) for m in re.findall(r'\bX\(((?:"(?:[^"\\]|\\.)*"|[^()"]|\([^()]*\))*)\)', body)]


def parse_struct(name, body):
    fields, at, align = [], 0, 1
    for declaration in filter(None, (d.strip() for d in body.split(";"))):
        m = re.fullmatch(r"(?:struct\s+)?(\w+)\s+(\w+)(?:\[(.+)\])?", declaration)
        kind, field, count = m[1], m[2], m[3] and number(m[3])
        if kind in INTEGERS:
            one = step = struct.calcsize("=" + INTEGERS[kind])
        else:
            one, step = STRUCTS[kind].size, STRUCTS[kind].align
        at += -at % step
        size = one * (1 if count is None else count)
        fields.append(Field(field, kind, count, at, size))
        at += size
        align = max(align, step)
    STRUCTS[name] = Struct(name, fields, at + -at % align, align)


def parse_enum(body, macros):
    value = -1
    for item in filter(None, (i.strip() for i in re.split(r",(?![^()]*\))|(?<=\))", body))):
        expand = re.fullmatch(r"(\w+)\((CHAN_X_ENUM|CONFIG_X_ENUM|METRIC_X_\w+)\)", item)
        if expand is None:
            name, _, text = item.partition("=")
            value = number(text) if text else value + 1
            CONST[name.strip()] = value
            continue
        for row in macros[expand[1]]:
            value += 1
            if expand[2].startswith("METRIC_X_"):
                CONST["METRIC_" + (row[1] if expand[2] == "METRIC_X_ENUM" else f"{expand[2][9:]}_{row[0]}")] = value
                continue
            if expand[2] == "CONFIG_X_ENUM":
                CONST["CFG_" + row[0]] = value
                doc = "".join(re.findall(r'"(.*?)"', row[6]))
                CONFIG[row[0]] = ConfigRow(row[0], row[1], row[2].strip('"'), number(row[3]), number(row[4]), number(row[5]), doc, value)
                continue
            r = Row(row[0], row[1], row[2].removeprefix("struct "), number(row[3]), row[4], value)
            if r.name in MSG:
                raise ValueError(f"two messages are called {r.name}")
            MSG[r.name] = CONST["MSG_" + r.name] = value
            ROWS[value] = r
            TABLES.setdefault(expand[1], []).append(r)


def parse_header(path):
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S).replace("\\\n", " ")
    macros = {}
    for name, body in re.findall(r"^#define (\w+)\(X\)(.*)$", text, re.M):
        macros[name] = rows_of(body)
    for name, body in re.findall(r"^#define (\w+) (.*)$", text, re.M):
        try:
            CONST[name] = number(body.strip())
        except (ValueError, SyntaxError, NameError, TypeError):
            pass
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    for m in re.finditer(r"\b(struct|enum)\s*(\w*)\s*\{([^{}]*)\}", text):
        if m[1] == "enum":
            parse_enum(m[3], macros)
        elif path.parent.name == "proto" and m[2] != "config":
            parse_struct(m[2], m[3])


def load():
    CONST["MSG_MAX"] = 65536
    for name in (
        "common/frame.h",
        "common/record.h",
        "common/log.h",
        "proto/config.h",
        "proto/metrics.h",
        "proto/parent.h",
        "proto/job.h",
        "proto/data.h",
        "proto/dial.h",
    ):
        parse_header(ROOT / name)
    done = {"config.h", "metrics.h", "parent.h", "job.h", "data.h", "dial.h"}
    for path in HEADERS:
        if path.name not in done:
            parse_header(path)
    parse_struct("msg_header", "uint32_t type; uint32_t len; uint64_t id")


load()


def __getattr__(name):
    try:
        return CONST[name]
    except KeyError:
        raise AttributeError(name) from None


def sizeof(name):
    return STRUCTS[name].size


def pack(name, fields=None):
    """The bytes of struct `name`; what is not given is 0. char[] takes str or bytes, uint8_t[] bytes, structs dicts."""
    s, fields = STRUCTS[name], dict(fields or {})
    out = bytearray(s.size)
    for f in s.fields:
        if f.name not in fields:
            continue
        value = fields.pop(f.name)
        if f.type in STRUCTS:
            data = pack(f.type, value)
        elif f.count is None:
            data = struct.pack("=" + INTEGERS[f.type], int(value))
        else:
            data = value.encode() if isinstance(value, str) else bytes(value)
            if len(data) > f.size:
                raise ValueError(f"{name}.{f.name}: {len(data)} bytes in {f.size}")
        out[f.offset : f.offset + len(data)] = data
    if fields:
        raise KeyError(f"struct {name} has no {', '.join(fields)}")
    return bytes(out)


def unpack(name, data):
    """A dict of struct `name`. char[] becomes str up to its NUL, uint8_t[] bytes."""
    s, out = STRUCTS[name], {}
    if len(data) < s.size:
        raise ValueError(f"struct {name}: {len(data)} bytes instead of {s.size}")
    for f in s.fields:
        part = data[f.offset : f.offset + f.size]
        if f.type in STRUCTS:
            out[f.name] = unpack(f.type, part)
        elif f.count is None:
            out[f.name] = struct.unpack("=" + INTEGERS[f.type], part)[0]
        elif f.type == "char":
            out[f.name] = part.split(b"\0")[0].decode("utf-8", "surrogateescape")
        else:
            out[f.name] = bytes(part)
    return out


class Gone(EOFError):
    """The other end has closed the channel or the data socket."""


@contextlib.contextmanager
def reading(sock, timeout):
    """The timeout is this one read's: what is sent afterwards may take its time on a busy machine."""
    before = sock.gettimeout()
    sock.settimeout(max(0.001, timeout))
    try:
        yield
    finally:
        sock.settimeout(30 if before is None else before)


class Chan:
    """One end of a channel. Takes over the socket."""

    def __init__(self, sock):
        self.sock = sock

    def send(self, name, id=0, fields=None, tail=b"", fd=None):
        row = ROWS[MSG[name]]
        tail = tail.encode() if isinstance(tail, str) else tail
        self.send_raw(MSG[name], id, pack(row.struct, fields) + tail, [] if fd is None else [fd])

    def send_raw(self, type, id, body, fds=(), length=None):
        """Any packet; fds are numbers or things with fileno(); they stay open here."""
        length = 16 + len(body) if length is None else length
        fds = [fd if isinstance(fd, int) else fd.fileno() for fd in fds]
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.sock.sendmsg([struct.pack("=IIQ", type, length, id), body], control)

    def recv(self, timeout=30):
        try:
            with reading(self.sock, timeout):
                data, control, flags, _ = self.sock.recvmsg(65537, socket.CMSG_SPACE(64), socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            raise Gone("channel") from None
        if data == b"":
            raise Gone("channel")
        fds = array.array("i")
        for level, kind, value in control:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds.frombytes(value[: len(value) - len(value) % fds.itemsize])
        type, length, id = struct.unpack_from("=IIQ", data)
        row, body = ROWS[type], data[16:]
        size = sizeof(row.struct)
        assert flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) == 0 and length == len(data), row.name
        assert size <= len(body) <= size + row.tail, row.name
        assert len(fds) in {"FD_NONE": (0,), "FD_MUST": (1,), "FD_MAY": (0, 1)}[row.fd], row.name
        return Message(row.name, id, unpack(row.struct, body), body[size:], fds[0] if fds else None)

    def expect(self, name, timeout=30, id=None):
        """The next message, which must be `name` (and have this id)."""
        m = self.recv(timeout)
        assert m.name == name and id in (None, m.id), f"expected {name} {id}, got {m}"
        return m

    def recv_until(self, name, timeout=30, id=None):
        """Skips what comes before."""
        end = time.monotonic() + timeout
        while True:
            m = self.recv(max(0.001, end - time.monotonic()))
            if m.name == name and id in (None, m.id):
                return m
            if m.fd is not None:
                os.close(m.fd)

    def silent(self, seconds=0.2):
        """True when nothing comes for so long."""
        try:
            m = self.recv(seconds)
        except TimeoutError:
            return True
        raise AssertionError(f"unexpected {m}")

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()


def chan_pair():
    """Two sockets that are the ends of a channel."""
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return a, b


def data_pair():
    """Two ends of a data socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


def record(type, data=b""):
    return struct.pack("<IB", len(data), type) + data


def parse_record(data):
    """(type, bytes, rest), or None when it is not whole."""
    if len(data) < 5:
        return None
    n, type = struct.unpack_from("<IB", data)
    if len(data) < 5 + n:
        return None
    return type, data[5 : 5 + n], data[5 + n :]


class Records:
    """Reads and writes records on a data socket."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def send(self, type, data=b""):
        self.sock.sendall(record(type, data))

    def recv(self, timeout=30):
        end = time.monotonic() + timeout
        while (parsed := parse_record(self.rest)) is None:
            with reading(self.sock, end - time.monotonic()):
                more = self.sock.recv(1 << 18)
            if not more:
                raise Gone(f"data socket, {len(self.rest)} bytes of a record left")
            self.rest += more
        type, data, self.rest = parsed
        return type, data

    def all(self, timeout=30):
        """Everything up to the end of the stream."""
        out = []
        try:
            while True:
                out.append(self.recv(timeout))
        except Gone:
            assert self.rest == b""
        return out

    def close(self):
        self.sock.close()


def frame(type, channel=0, data=b"", magic=None, flags=0, length=None, crc=None):
    """A frame of the guest stream; the keywords make wrong ones."""
    head = struct.pack(
        "<IBBHI", CONST["FRAME_MAGIC"] if magic is None else magic, type, flags, channel, len(data) if length is None else length
    )
    return head + struct.pack("<I", zlib.crc32(data, zlib.crc32(head)) if crc is None else crc) + data


def parse_frame(data):
    """(type, channel, bytes, rest), or None when it is not whole. A frame that is wrong fails."""
    if len(data) < 16:
        return None
    magic, type, flags, channel, n, crc = struct.unpack_from("<IBBHII", data)
    assert magic == CONST["FRAME_MAGIC"] and flags == 0 and n <= CONST["FRAME_DATA_MAX"], data[:16]
    if len(data) < 16 + n:
        return None
    body = data[16 : 16 + n]
    assert zlib.crc32(body, zlib.crc32(data[:12])) == crc
    return type, channel, body, data[16 + n :]


class Frames:
    """Reads and writes frames on a stream socket."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def send(self, type, channel=0, data=b"", **wrong):
        self.sock.sendall(frame(type, channel, data, **wrong))

    def recv(self, timeout=30):
        end = time.monotonic() + timeout
        while (parsed := parse_frame(self.rest)) is None:
            with reading(self.sock, end - time.monotonic()):
                more = self.sock.recv(1 << 18)
            if not more:
                raise Gone("guest stream")
            self.rest += more
        type, channel, data, self.rest = parsed
        return type, channel, data

    def close(self):
        self.sock.close()


USERS = {
    "apid": "_as-api",
    "managerd": "_as-manager",
    "dockerd-proxy": "_as-docker",
    "sessiond": "_as-session",
    "egressd": "_as-egress",
    "keyd": "_as-key",
}
LEVELS = {"error": 0, "warn": 1, "info": 2, "debug": 3}


def config_value(row, text):
    """(num, tail) of a P_CONFIG."""
    if row.type == "STR":
        return 0, str(text).encode()
    if row.type == "BOOL":
        return int(str(text).lower() in ("true", "1", "yes")), b""
    if row.type == "DEC":
        return int(decimal.Decimal(str(text)) * 10**9), b""
    return int(text), b""


class Trail:
    """keyd in the eyes of managerd: signs whatever it is asked to, with zeros. hold: answers nothing more."""

    def __init__(self, chan):
        self.chan, self.hold, self.seen, self.lost, self.status = chan, False, [], 0, CONST["CHECKPOINT_OK"]
        self.last = {"seq": 0, "head": bytes(32)}
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(Gone, OSError, ValueError):
            while True:
                with contextlib.suppress(TimeoutError):
                    self.answer(self.chan.recv(3600))

    def answer(self, m):
        self.seen.append(m)
        if m.name == "K_LOST":
            self.lost = m.fields["lost"]
        elif m.name == "K_ASK_LAST":
            self.chan.send("K_LAST", m.id, self.last | {"lost": self.lost})
        elif not self.hold:
            if self.status == CONST["CHECKPOINT_OK"]:
                self.last = {k: m.fields[k] for k in ("seq", "head")}
            self.chan.send("K_CHECKPOINTED", m.id, {"status": self.status, "at_us": time.time_ns() // 1000})


class Program:
    """One of our programs, started as agent-sandboxd would, with the test in the place of its parent and its peers.

    fds: what it gets as fd 4, 5, …: "chan" (the other end is then the next of .peers), or a socket or number.
    config: {"MAX_SANDBOXES": 3, …} above the defaults; only rows for this program are sent.
    path: of its root directory or the engine's socket. as_root: None means if we are.
    """

    def __init__(
        self,
        name,
        fds=("chan",),
        config=None,
        path="",
        as_root=None,
        allow_weaker=False,
        partial=False,
        instance=0,
        extra_gid=None,
        log_level="debug",
        program=None,
        argv=None,
        start=True,
        ready=True,
        timeout=30.0,
        trail=True,
    ):
        self.name, self.peers, self.status = name, [], None
        self.program = Path(program) if program else BUILD / name
        self.as_root = os.geteuid() == 0 if as_root is None else as_root
        self.uid, self.gid = self.ids()
        self.path, self.extra_gid = str(path), extra_gid
        self.prepare_path()
        parent, theirs = chan_pair()
        self.parent, mine = Chan(parent), [theirs]
        for fd in fds:
            if fd == "chan":
                a, b = chan_pair()
                self.peers.append(Chan(a))
                mine.append(b)
            else:
                mine.append(fd)
        self.log_file = tempfile.TemporaryFile(prefix="log-")  # noqa: SIM115 - lives as long as the program
        self.pid = self.spawn(mine, argv or [name])
        # managerd asks keyd before anything else.
        self.trail = Trail(self.peers[3]) if name == "managerd" and len(self.peers) == 4 and trail else None
        for fd, kept in zip(mine, [None, *fds], strict=True):
            if kept in (None, "chan"):
                fd.close()
        if start:
            self.start(config or {}, allow_weaker, partial, instance, log_level)
        if start and ready:
            self.ready(timeout)

    def ids(self):
        """A user of its own when we are root, whether it exists or not."""
        if not self.as_root:
            return os.geteuid(), os.getegid()
        try:
            user = pwd.getpwnam(USERS[self.name])
            return user.pw_uid, user.pw_gid
        except KeyError:
            id = 64100 + list(USERS).index(self.name)
            return id, id

    def prepare_path(self):
        if not self.path or not os.path.exists(self.path):
            return
        st = os.stat(self.path)
        if stat.S_ISSOCK(st.st_mode) and self.extra_gid is None and self.as_root and st.st_gid != 0:
            self.extra_gid = st.st_gid
        if stat.S_ISDIR(st.st_mode) and self.as_root:
            os.chown(self.path, self.uid, self.gid)

    def spawn(self, mine, argv):
        import fcntl

        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in mine]
        actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
        actions.append((os.POSIX_SPAWN_DUP2, self.log_file.fileno(), 2))
        actions += [(os.POSIX_SPAWN_DUP2, fd, 3 + i) for i, fd in enumerate(high)]
        env = {k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LLVM_PROFILE_FILE")}
        try:
            return os.posix_spawn(self.program, argv, env, file_actions=actions, setsigdef=[signal.SIGPIPE])
        finally:
            for fd in high:
                os.close(fd)

    def start(self, config, allow_weaker, partial, instance, log_level):
        bit = CONST["TO_" + self.name.upper().replace("-", "_")]
        setup = {"uid": self.uid, "gid": self.gid, "extra_gid": 2**32 - 1 if self.extra_gid is None else self.extra_gid}
        setup |= {"as_root": self.as_root, "allow_weaker": allow_weaker, "partial": partial, "instance": instance}
        self.parent.send("P_SETUP", 0, setup | {"log_level": LEVELS[log_level]}, self.path)
        for key in config:
            assert CONFIG[key].to & bit, f"{key} is not for {self.name}"
        for row in CONFIG.values():
            if row.to & bit:
                num, tail = config_value(row, config.get(row.key, row.default))
                self.parent.send("P_CONFIG", 0, {"key": row.number, "num": num}, tail)
        self.parent.send("P_START")
        if self.name == "keyd":
            self.give_trail()

    def give_trail(self):
        """The files that are keyd's own: in the folder path, or in one of the test's."""
        self.trail_temp = None if self.path else tempfile.TemporaryDirectory(prefix="trail-")
        self.trail_folder = Path(self.path or self.trail_temp.name)
        for index, name in enumerate(("audit", "audit.pub")):
            fd = os.open(self.trail_folder / name, os.O_RDWR | os.O_CREAT, 0o600)
            self.parent.send("P_AUDIT", 0, {"index": index}, fd=fd)
            os.close(fd)

    def ready(self, timeout=30):
        try:
            m = self.parent.recv_until("P_READY", timeout)
        except (Gone, TimeoutError) as exc:
            status = self.wait(1)
            raise AssertionError(f"{self.name} is not ready ({exc!r}), exit {status}:\n{self.log()}") from None
        self.partial = m.fields["partial"]

    def log(self):
        return os.pread(self.log_file.fileno(), 1 << 24, 0).decode("utf-8", "replace")

    def wait(self, timeout=30):
        """Its exit status, or minus its signal; None while it runs."""
        end = time.monotonic() + timeout
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                return None
            else:
                time.sleep(0.005)
        return self.status

    def alive(self):
        return self.wait(0) is None

    def stop(self, timeout=30):
        """Closes the parent's channel, which ends it; kills it if that does not."""
        self.parent.close()
        status = self.wait(timeout)
        if status is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait(30)
        for peer in self.peers:
            peer.close()
        if getattr(self, "trail_temp", None):
            self.trail_temp.cleanup()
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        status = self.stop()
        if kind is not None:
            print(f"--- log of {self.name} (exit {status}):\n{self.log()}")
        self.log_file.close()
