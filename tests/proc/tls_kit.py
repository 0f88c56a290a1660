"""TLS under test: apid with a real keyd beside it, or with one that a test stands in front of, and a client that shows what
ssl.SSLSocket hides: who closes without saying so, and closing one's own side only."""

import io
import socket
import ssl
import tempfile
import threading
import time
from pathlib import Path

import layout
from apid_server import Server, Session
from authority import Authority


class Truncated(ConnectionResetError):
    """The other side has gone without its close_notify."""


class TlsSocket:
    """What the tests use of a socket. shutdown(SHUT_WR) says close_notify and goes on reading; cut() is the end of TCP without it."""

    def __init__(self, sock, context, name="127.0.0.1", session=None):
        self.sock, self.input, self.output, self.pending = sock, ssl.MemoryBIO(), ssl.MemoryBIO(), b""
        self.tls = context.wrap_bio(self.input, self.output, server_hostname=name, session=session)
        self.rest = b""
        try:
            self.step(self.tls.do_handshake)
        except BaseException:
            sock.close()
            raise

    def flush(self):
        self.pending += self.output.read()
        while self.pending:
            self.pending = self.pending[self.sock.send(self.pending) :]

    def step(self, act, *args):
        while True:
            try:
                result = act(*args)
                self.flush()
                return result
            except ssl.SSLWantReadError:
                self.flush()
            except ssl.SSLError:
                try:
                    self.flush()
                except OSError:
                    pass
                raise
            if data := self.sock.recv(1 << 16):
                self.input.write(data)
            else:
                self.input.write_eof()

    def recv(self, n, flags=0):
        data = self.rest or self.more(n)
        self.rest = data if flags & socket.MSG_PEEK else data[n:]
        return data[:n]

    def more(self, n):
        try:
            return self.step(self.tls.read, n)
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLError as exc:
            if isinstance(exc, ssl.SSLEOFError) or exc.reason == "UNEXPECTED_EOF_WHILE_READING":
                raise Truncated from None
            raise

    def send(self, data):
        self.flush()
        view = memoryview(data)
        while len(view):
            view = view[self.step(self.tls.write, view) :]
        return len(data)

    sendall = send

    def send_behind(self, data):
        """In a thread of its own, while this one reads: what two threads cannot share, the state of TLS, is through with it by then."""
        self.flush()
        self.tls.write(data)
        threading.Thread(target=self.sock.sendall, args=(self.output.read(),), daemon=True).start()

    def shutdown(self, how):
        assert how == socket.SHUT_WR
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def cut(self):
        self.sock.shutdown(socket.SHUT_WR)

    def settimeout(self, seconds):
        self.sock.settimeout(seconds)

    def setsockopt(self, *args):
        self.sock.setsockopt(*args)

    def makefile(self, mode):
        assert mode == "rb"
        return io.BufferedReader(Reader(self))

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()


class Reader(io.RawIOBase):
    def __init__(self, sock):
        self.socket = sock

    def readable(self):
        return True

    def readinto(self, into):
        data = self.socket.recv(len(into))
        into[: len(data)] = data
        return len(data)


class Certificates:
    """Files of a server: names of each certificate, in order."""

    def __init__(self, *names, kinds=("p256",)):
        self.folder = tempfile.TemporaryDirectory(prefix="tls-")
        self.authority = Authority(Path(self.folder.name) / "ca")
        self.pairs = []
        for i, list in enumerate(names or (("IP:127.0.0.1", "DNS:localhost"),)):
            self.pairs.append(self.authority.issue(f"server {i}", names=list, kind=kinds[i % len(kinds)]))

    def close(self):
        self.folder.cleanup()


class TlsServer(Server):
    """apid over TLS, and keyd. between(message, answer): stands between them; what it returns is keyd's answer, None: none."""

    scheme = "https"

    def __init__(self, certificates=None, client_ca=None, between=None, **config):
        self.own = None if certificates else Certificates()
        self.certificates, self.client_ca, self.between = certificates or self.own, client_ca, between
        self.generation = 0
        super().__init__(**config)

    def launch(self, listener, config):
        self.keyd = layout.Program("keyd", ["chan"] * 2)
        paths = ",".join(str(cert) for cert, _ in self.certificates.pairs)
        theirs = "chan" if self.between else self.keyd.peers[0].sock
        program = layout.Program("apid", ["chan", listener, theirs], config={"TLS_CERT": paths} | config, ready=False)
        if self.between:
            self.asked = program.peers[1]
            threading.Thread(target=self.stand_between, daemon=True).start()
        else:
            self.keyd.peers[0].close()
        self.program = program
        self.load()
        program.ready()
        return program

    def stand_between(self):
        try:
            while True:
                m = self.asked.recv(timeout=3600)
                self.keyd.peers[0].send(m.name, m.id, m.fields, m.tail)
                if m.name == "K_USE":
                    continue
                answer = self.between(m, self.keyd.peers[0].recv())
                if answer is not None:
                    self.asked.send(answer.name, answer.id, answer.fields, answer.tail)
        except (layout.Gone, OSError):
            return

    def load(self, pairs=None, client_ca=None):
        """As the parent does at the start and at SIGHUP. Returns apid's answer, or keyd's when the keys are not good."""
        self.generation += 1
        pairs = pairs or self.certificates.pairs
        fields = {"generation": self.generation, "count": len(pairs)}
        for i, (_, key) in enumerate(pairs):
            with open(key, "rb") as f:
                self.keyd.parent.send("P_KEYFILE", 0, fields | {"index": i}, fd=f)
        done = self.keyd.parent.recv_until("P_KEYED")
        if done.fields["failed"]:
            return done
        return self.load_certificates(fields, [cert for cert, _ in pairs], client_ca or self.client_ca)

    def load_certificates(self, fields, paths, client_ca=None):
        for i, path in enumerate(paths):
            with open(path, "rb") as f:
                self.program.parent.send("P_CERT", 0, fields | {"index": i}, fd=f)
        if client_ca:
            with open(client_ca, "rb") as f:
                self.program.parent.send("P_CLIENT_CA", 0, fields, fd=f)
        self.program.parent.send("P_TLS", 0, fields)
        done = self.program.parent.recv_until("P_TLS_DONE")
        assert done.fields["generation"] == fields["generation"]
        if done.fields["failed"]:
            self.keyd.parent.send("P_FORGET", 0, fields)
        return done

    def stop(self):
        try:
            super().stop()
        finally:
            self.end_keyd()

    def end_keyd(self):
        self.keyd.stop()
        if self.own:
            self.own.close()

    def session(self):
        session = Session()
        session.verify = str(self.certificates.authority.cert)
        return session

    def context(self, client=None, **more):
        context = ssl.create_default_context(cafile=self.certificates.authority.cert)
        context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # else a connection that is cut reads like one that has ended
        if client:
            context.load_cert_chain(*client)
        for name, value in more.items():
            setattr(context, name, value)
        return context

    def connect(self, timeout=30, context=None, name="127.0.0.1", session=None):
        sock = self.plain(timeout)
        return TlsSocket(sock, context or self.context(), name, session)

    def wait_closed(self, sock, seconds=30):
        """Until the other side has ended it."""
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end and sock.recv(1 << 16):
                pass
        except (OSError, ssl.SSLError):
            pass
