"""What stands between the tests and each server, for a whole run: nothing, the server's own TLS, or nginx (AS_TEST_FRONT=tls|nginx).
The tests are the same. What looks at the server's own HTTP parser, or at its port, is marked "gate" and left out behind nginx; what has servers
or certificates of its own is marked "bare" and runs with nothing in front."""

import atexit
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from machine import free_port, wait_until


class Plain:
    scheme = "http"
    verify = True
    environment = {}
    gate = True  # what answers is the server's own port
    bare = True

    def settings(self, port):
        return {}

    def connect(self, port, seconds=30):
        return socket.create_connection(("127.0.0.1", port), seconds)

    def start(self, server):
        pass

    def stop(self, server):
        pass


class Tls(Plain):
    """Certificates of an authority that only the tests trust; clients are told of it as their users would tell them."""

    scheme = "https"
    bare = False
    names = "IP:127.0.0.1,DNS:localhost"

    def __init__(self):
        self.dir = Path(tempfile.mkdtemp(prefix="as-front-"))
        self.dir.chmod(0o755)  # clients that gave up root read the authority's certificate
        atexit.register(shutil.rmtree, self.dir, True)
        self.ca, self.cert, self.key = (str(self.dir / name) for name in ("ca", "cert", "key"))
        ca_key, request, names = self.dir / "ca-key", self.dir / "request", self.dir / "names"
        names.write_text(f"subjectAltName={self.names}\nextendedKeyUsage=serverAuth\n")
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self.openssl("req", "-x509", *new, "-days", "2", "-subj", "/CN=tests", "-keyout", ca_key, "-out", self.ca,
                     "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
        self.openssl("req", *new, "-subj", "/CN=server", "-keyout", self.key, "-out", request)
        self.openssl("x509", "-req", "-days", "2", "-in", request, "-CA", self.ca, "-CAkey", ca_key, "-CAcreateserial", "-extfile", names,
                     "-out", self.cert)  # fmt: skip
        self.verify = self.ca
        self.context = ssl.create_default_context(cafile=self.ca)
        # The command and the SDKs; httpx, which the published clients use; Node; curl.
        names = ("AGENT_SANDBOX_CA_FILE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE")
        self.environment = dict.fromkeys(names, self.ca)

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, stdin=subprocess.DEVNULL)

    def settings(self, port):
        return {"TLS_CERT": self.cert, "TLS_KEY": self.key}

    def connect(self, port, seconds=30):
        s = super().connect(port, seconds)
        try:
            return self.context.wrap_socket(s, server_hostname="127.0.0.1")
        except BaseException:
            s.close()
            raise


NGINX = """daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx.log; worker_processes 1; {user}
events {{ worker_connections 4096; }}
http {{
	access_log off; client_max_body_size 0; large_client_header_buffers 4 32k; keepalive_timeout 3600s;
	client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
	server {{
		listen 127.0.0.1:{port} backlog=1024;
		location / {{
			proxy_pass http://127.0.0.1:{inner};
			proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 3600s; proxy_send_timeout 3600s;
		}}
	}}
}}
"""


class Nginx(Plain):
    """Each server listens on a port of its own behind an nginx that has the port which the tests know."""

    gate = bare = False

    def __init__(self):
        self.inner, self.running = {}, {}

    def settings(self, port):
        self.inner[port] = free_port()
        return {"PORT": self.inner[port], "TRUSTED_PROXIES": "127.0.0.1"}

    def start(self, server):
        if server.port in self.running or str(server.settings["PORT"]) != str(self.inner[server.port]):
            return
        folder = Path(tempfile.mkdtemp(prefix="as-nginx-"))
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "conf").write_text(NGINX.format(dir=folder, port=server.port, inner=self.inner[server.port], user=user))
        p = subprocess.Popen(["nginx", "-e", folder / "nginx.log", "-c", folder / "conf"], stdin=subprocess.DEVNULL, start_new_session=True)
        self.running[server.port] = (p, folder)

        def listens():
            with socket.socket() as s:
                return p.poll() is not None or s.connect_ex(("127.0.0.1", server.port)) == 0

        assert wait_until(listens) and p.poll() is None, (folder / "nginx.log").read_text()

    def stop(self, server):
        p, folder = self.running.pop(server.port, (None, None))
        if p is not None:
            p.terminate()
            p.wait(30)
            shutil.rmtree(folder)


FRONT = {"": Plain, "tls": Tls, "nginx": Nginx}[os.environ.get("AS_TEST_FRONT", "")]()
os.environ.update(FRONT.environment)
