"""An egressd under test, in a network of its own: a namespace for it, and another that is the whole world, which has every
address there is, a name server, and the hosts that a test puts there. The test plays parent, managerd and sandboxes."""

import contextlib
import ctypes
import os
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
from pathlib import Path

import layout
from machine import wait_until

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75

# Addresses that are public and that nobody here needs.
EGRESS4, WORLD4, DNS4 = "44.10.0.2", "44.10.0.1", "44.10.0.53"
EGRESS6, WORLD6 = "2a0d:5600::2", "2a0d:5600::1"
SECOND4, THIRD4, LOCAL4 = "44.10.0.3", "44.99.0.1", "44.98.0.0"  # also its own: a second, a /32, whole networks
PRIVATE4 = "10.99.0.1"
SECOND6, LOCAL6 = "2a0d:5600::3", "2a0d:5698::"
HOST4, HOST6 = "44.20.0.1", "2a0d:5601::1"
BLACK4, BLACK6 = "44.66.0.1", "2a0d:5666::1"  # packets to it are dropped
NOROUTE4 = "44.67.0.1"

CONNECT, SOCKS, DIRECT, HTTP = range(4)


def within(ns, fn):
    """fn(), called in this network namespace (None: in a new one)."""
    out = []

    def run():
        try:
            if (LIBC.unshare(CLONE_NEWNET) if ns is None else LIBC.setns(ns, CLONE_NEWNET)) != 0:
                raise OSError(ctypes.get_errno(), "network namespace")
            out.append((fn(), None))
        except BaseException as exc:  # noqa: BLE001 - it goes to the caller
            out.append((None, exc))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, exc = out[0]
    if exc is not None:
        raise exc
    return value


def ip(*words):
    subprocess.run(["ip", *" ".join(map(str, words)).split()], check=True, capture_output=True)


def has_ipv6():
    return Path("/proc/net/if_inet6").exists()


class Net:
    """Two namespaces, which go with the descriptors that hold them."""

    def __init__(self):
        self.world, self.egress = (within(None, lambda: os.open("/proc/thread-self/ns/net", os.O_RDONLY)) for _ in range(2))
        within(self.egress, self.make_egress)
        within(self.world, self.make_world)
        self.dns = None

    def make_egress(self):
        ip("link set lo up")
        ip("link add e0 type veth peer name w0")
        ip(f"link set w0 netns /proc/{os.getpid()}/fd/{self.world}")
        ip(f"addr add {EGRESS4}/16 dev e0")
        ip("link set e0 up")
        ip(f"route add default via {WORLD4}")
        ip(f"route add unreachable {NOROUTE4}/32")
        ip(f"addr add {SECOND4}/16 dev e0")
        ip(f"addr add {THIRD4}/32 dev lo")
        ip(f"addr add {PRIVATE4}/32 dev lo")
        ip(f"route add local {LOCAL4}/28 dev lo")
        if has_ipv6():
            ip(f"addr add {EGRESS6}/64 dev e0 nodad")
            ip(f"addr add {SECOND6}/64 dev e0 nodad")
            ip(f"-6 route add local {LOCAL6}/120 dev lo")
            ip(f"route add default via {WORLD6}")

    def make_world(self):
        ip("link set lo up")
        ip(f"addr add {WORLD4}/16 dev w0")
        ip("link set w0 up")
        ip("rule add iif w0 lookup 100")  # whatever comes here is for here
        ip("route add local 0.0.0.0/0 dev lo table 100")
        ip(f"route add blackhole {BLACK4}/32 table 100")
        if has_ipv6():
            ip(f"addr add {WORLD6}/64 dev w0 nodad")
            ip("-6 rule add iif w0 lookup 100")
            ip("-6 route add local ::/0 dev lo table 100")
            ip(f"-6 route add blackhole {BLACK6}/128 table 100")

    def listen(self, port, address="0.0.0.0", backlog=512):
        """A TCP socket of the world; address "::" is both families."""

        sock = self.socket(socket.SOCK_STREAM, address)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(backlog)
        return sock

    def socket(self, kind, address):
        """A socket of the world, which may be bound to any address."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = within(self.world, lambda: socket.socket(family, kind))
        sock.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
        if address == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        return sock

    def serve(self, port, handle, address="::"):
        return Host(self.listen(port, address if has_ipv6() else "0.0.0.0"), handle)

    def close(self):
        os.close(self.world)
        os.close(self.egress)


class Host:
    """Accepts connections, each in a thread with handle(sock); .seen has the addresses that were connected to."""

    def __init__(self, listener, handle):
        self.listener, self.handle, self.seen, self.socks = listener, handle, [], []
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.seen.append(sock.getsockname()[0].removeprefix("::ffff:"))
                self.socks.append(sock)
                threading.Thread(target=self.one, args=(sock,), daemon=True).start()

    def one(self, sock):
        with contextlib.suppress(OSError):
            self.handle(sock)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for s in self.socks:
            s.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


def echo(sock):
    """Sends back what comes, then ends too."""
    while data := sock.recv(65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def silent(sock):
    del sock


def reset(sock):
    sock.recv(1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


A, AAAA, CNAME = 1, 28, 5


def dns_name(name):
    return b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\0"


class Dns:
    """A name server whose names are a dict: a list of addresses and "CNAME" strings, or a function of (type, count) that
    returns such a list, an rcode, raw bytes as the answer, or None for silence."""

    def __init__(self, net, address=DNS4):
        self.names, self.asked = {}, []
        self.udp = net.socket(socket.SOCK_DGRAM, address)
        self.udp.bind((address, 53))
        self.tcp = net.listen(53, address)
        for target in (self.run_udp, self.run_tcp):
            threading.Thread(target=target, daemon=True).start()

    def run_udp(self):
        with contextlib.suppress(OSError):
            while True:
                query, peer = self.udp.recvfrom(4096)
                threading.Thread(target=self.reply_udp, args=(query, peer), daemon=True).start()

    def reply_udp(self, query, peer):
        with contextlib.suppress(OSError):
            for answer in self.answer(query):
                if len(answer) > 1200 and not answer.startswith(b"\0raw"):
                    answer = answer[:2] + struct.pack(">H", 0x8380) + query[4:6] + bytes(6) + self.question(query)[1]
                self.udp.sendto(answer.removeprefix(b"\0raw"), peer)

    def run_tcp(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.tcp.accept()
                with sock, contextlib.suppress(OSError, struct.error):
                    n = struct.unpack(">H", sock.recv(2, socket.MSG_WAITALL))[0]
                    for answer in self.answer(sock.recv(n, socket.MSG_WAITALL)):
                        sock.sendall(struct.pack(">H", len(answer)) + answer)

    @staticmethod
    def question(query):
        """(name, the question's bytes, type)"""
        at, labels = 12, []
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += query[at] + 1
        return ".".join(labels).lower(), query[12 : at + 5], struct.unpack(">H", query[at + 1 : at + 3])[0]

    def answer(self, query):
        name, question, kind = self.question(query)
        self.asked.append((name, kind))
        found = self.names.get(name, 3)
        if callable(found):
            found = found(kind, self.asked.count((name, kind)))
        if found is None:
            return []
        if isinstance(found, bytes):
            return [b"\0raw" + found.replace(b"ID", query[:2]).replace(b"QUESTION", question)]
        return [reply(query[:2], question, kind, name, found)]

    def close(self):
        self.udp.close()
        self.tcp.close()


def reply(id, question, kind, name, found):
    """Bytes of an answer: found is an rcode or a list of addresses and names."""
    records, owner = [], name
    for item in found if isinstance(found, list) else []:
        family = socket.AF_INET6 if ":" in item else socket.AF_INET
        if re.fullmatch(r"[\d.]+|[\da-f:.]*:[\da-f:.]*", item):
            if kind == (AAAA if family == socket.AF_INET6 else A):
                data = socket.inet_pton(family, item)
                records.append(dns_name(owner) + struct.pack(">HHIH", kind, 1, 60, len(data)) + data)
        else:
            data = dns_name(item)
            records.append(dns_name(owner) + struct.pack(">HHIH", CNAME, 1, 60, len(data)) + data)
            owner = item
    rcode = found if isinstance(found, int) else 0
    return id + struct.pack(">HHHHH", 0x8180 | rcode, 1, len(records), 0, 0) + question + b"".join(records)


class Egress(layout.Program):
    """egressd in its namespace. dial() asks; what comes back is kept by the id of its dial."""

    def __init__(self, net, resolv=DNS4, config=None, **more):
        self.net, self.dialled, self.told = net, 0, {}
        config = {"NETWORK_MODE": "proxy"} | (config or {})
        within(net.egress, lambda: super(Egress, self).__init__("egressd", ["chan"], config=config, **more))
        self.manager = self.peers[0]
        if resolv is not None:
            self.resolv(resolv)

    def __exit__(self, kind, value, traceback):
        """It ended as it decides, if it has not been told to crash; and no sanitizer said anything."""
        status, log = self.stop(), self.log()
        super().__exit__(kind, value, traceback)
        assert status in (0, 1, 2) and "AddressSanitizer" not in log and "runtime error" not in log, log

    def resolv(self, text):
        """What managerd says comes by another channel: it is waited for until egressd knows."""
        told = self.log().count("name servers: ")
        self.parent.send("P_RESOLV", 0, None, text)
        assert wait_until(lambda: self.log().count("name servers: ") > told)

    def dial(self, name, port=443, allow=None, how=CONNECT, sandbox=1):
        """allow: the sandbox's list; the name alone if there is none."""
        name = name.encode() if isinstance(name, str) else name
        allow = name if allow is None else allow.encode()
        ours, theirs = layout.data_pair()
        self.dialled += 1
        self.manager.send(
            "E_DIAL", self.dialled, {"sandbox": sandbox, "port": port, "how": how, "name_len": len(name)}, name + allow, fd=theirs
        )
        theirs.close()
        ours.settimeout(20)
        return Dial(self, self.dialled, ours)

    def forget(self, sandbox=1):
        self.manager.send("E_FORGET", 0, {"sandbox": sandbox})

    def wait_for(self, name, id, timeout=30.0):
        until = time.monotonic() + timeout
        while (name, id) not in self.told:
            m = self.manager.recv(max(0.001, until - time.monotonic()))
            assert (m.name, m.id) not in self.told and ("E_DIAL_END", m.id) not in self.told, f"twice: {m}"
            assert m.name == "E_DIALED" or ("E_DIALED", m.id) in self.told, f"the end before the beginning: {m}"
            self.told[m.name, m.id] = m
        return self.told[name, id]


class Dial:
    def __init__(self, egress, id, sock):
        self.egress, self.id, self.sock = egress, id, sock

    def dialed(self):
        """(verdict, text)"""
        m = self.egress.wait_for("E_DIALED", self.id)
        return m.fields["verdict"], m.tail.decode()

    def ok(self):
        assert self.dialed() == (layout.DIAL_OK, "")
        return self

    def end(self, close=False):
        """(verdict, text) of the end."""
        if close:
            self.sock.close()
        m = self.egress.wait_for("E_DIAL_END", self.id)
        self.address, self.fields = m.fields["address"], m.fields
        return m.fields["verdict"], m.tail.decode()

    def fails(self, verdict, text):
        """It never came to be, for this reason; nothing was sent to the inside."""
        assert self.dialed() == (verdict, text), self.dialed()
        assert self.end() == (verdict, text)
        with contextlib.suppress(ConnectionResetError):
            assert self.sock.recv(1) == b""
        return self

    def refused(self, text):
        return self.fails(layout.DIAL_REFUSED, text)

    def failed(self, text):
        return self.fails(layout.DIAL_FAILED, text)

    def talk(self, data):
        """Sends, then reads as much."""
        self.sock.sendall(data)
        self.hears(data)

    def hears(self, data):
        """Exactly this comes, in however many pieces."""
        got = b""
        while len(got) < len(data):
            more = self.sock.recv(65536)
            assert more, f"ended after {len(got)} of {len(data)} bytes"
            got += more
        assert got == data

    def rest(self):
        """What comes until the end, however it ends."""
        got = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while more := self.sock.recv(1 << 18):
                got += more
        return bytes(got)


def client_hello(name=None, **more):
    """The bytes that a TLS client sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    for key, value in more.items():
        setattr(context, key, value)
    out = ssl.MemoryBIO()
    tls = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


def record(data, version=b"\3\1", kind=22):
    return bytes([kind]) + version + struct.pack(">H", len(data)) + data


def in_records(hello, size):
    """The same hello, cut into records of this many bytes."""
    body = hello[5:]
    return b"".join(record(body[i : i + size]) for i in range(0, len(body), size))
