"""A server in a network namespace whose world the test makes itself (tests/proc/egress_kit.py): name server and hosts."""

import contextlib
import http.server
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import requests
import urllib3

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "proc"))
from egress_kit import DNS4, HOST4, Dns, Net, echo, within  # noqa: E402
from front import Plain  # noqa: E402
from harness import Api, Server  # noqa: E402

WEB, TLS, ECHO = "web.example", "tls.example", "echo.example"


class Web(http.server.BaseHTTPRequestHandler):
    """Says what it was asked, and by whom it was taken for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/bytes/"):
            return self.many(int(self.path[7:]))
        body = f"{self.command} {self.path} {self.headers['Host']} {self.headers.get('Connection')}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.got = self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def many(self, n):
        self.send_response(200)
        self.send_header("Content-Length", str(n))
        self.end_headers()
        while n > 0:
            self.wfile.write(bytes(min(n, 1 << 18)))
            n -= min(n, 1 << 18)

    def log_message(self, *args):
        pass


def web(sock):
    class Quiet:
        got = b""

    Web(sock, ("", 0), Quiet())


class Hosts:
    """Listens in the world; each connection is closed when its handler is done."""

    def __init__(self, net, port, handle):
        self.listener, self.handle = net.listen(port), handle
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(sock,), daemon=True).start()

    def one(self, sock):
        with sock, contextlib.suppress(OSError):
            self.handle(sock)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class World:
    """44.20.0.1 is web.example, tls.example and echo.example; further names are set by tests in .dns.names. web(sock) is what port 80 does."""

    def __init__(self, web=web):
        self.net = Net()
        self.dns = Dns(self.net)
        self.dns.names |= {WEB: [HOST4], TLS: [HOST4], ECHO: [HOST4], "a.wild.example": [HOST4]}
        self.folder = tempfile.TemporaryDirectory(prefix="world-")
        self.context = self.certificate()
        self.hosts = [self.serve(80, web), self.serve(443, self.tls), self.serve(7777, echo)]

    def serve(self, port, handle):
        return Hosts(self.net, port, handle)

    def certificate(self):
        cert = f"{self.folder.name}/cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={TLS}",
             "-addext", f"subjectAltName=DNS:{TLS}", "-keyout", cert + ".key", "-out", cert],
            check=True, capture_output=True,
        )  # fmt: skip
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, cert + ".key")
        self.cert = Path(cert).read_bytes()
        return context

    def tls(self, sock):
        with self.context.wrap_socket(sock, server_side=True) as s:
            web(s)

    def close(self):
        for host in self.hosts:
            host.close()
        self.dns.close()
        self.net.close()
        self.folder.cleanup()


class NetApi(Api):
    """Its connections begin in a network namespace."""

    def __init__(self, url, net):
        super().__init__(url)
        self.net = net

    def session(self):
        first = not hasattr(self._local, "session")
        session = super().session()
        if first:
            net = self.net

            class Connection(urllib3.connection.HTTPConnection):
                def _new_conn(self):
                    sock = within(net.egress, socket.socket)
                    sock.settimeout(self.timeout)
                    sock.connect((self.host, self.port))
                    return sock

            class Pool(urllib3.HTTPConnectionPool):
                ConnectionCls = Connection

            adapter = requests.adapters.HTTPAdapter()
            adapter.poolmanager.pool_classes_by_scheme = {"http": Pool}
            session.mount("http://", adapter)
        return session


class NetServer(Server):
    """A server that sees only that world, and is asked from there: without anything in front."""

    front = Plain()

    def __init__(self, engine, world, **settings):
        super().__init__(engine, **settings)
        self.world, self.api = world, NetApi(self.url, world.net)
        (self.dir / "resolv.conf").write_text(f"nameserver {DNS4}\n")

    def launch(self, *arguments):
        script = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
        command = [self.programs / "agent-sandbox", "serve", *arguments]
        with open(self.log, "ab") as log:
            self.process = within(
                self.world.net.egress,
                lambda: subprocess.Popen(
                    ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, self.dir / "resolv.conf", *command],
                    env=self.environment(), cwd=self.dir, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                ),
            )  # fmt: skip
        return self
