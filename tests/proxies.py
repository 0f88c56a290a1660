"""Real proxies in front of a server, configured as docs/PROXIES.md shows it but for ports and files."""

import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from pathlib import Path

from machine import free_port, wait_until

ROOT = Path(__file__).resolve().parents[1]
NAME = "sandbox.example"
NGINX = """daemon off; pid {dir}/pid; error_log {dir}/log; worker_processes 1; user root;
events {{ worker_connections 1024; }}
http {{
	access_log off;
	client_body_temp_path {dir}/a; proxy_temp_path {dir}/b; fastcgi_temp_path {dir}/c; uwsgi_temp_path {dir}/d; scgi_temp_path {dir}/e;
{text}
}}
"""


def snippets():
    """The configurations of the page: kind, text."""
    page = (ROOT / "docs/PROXIES.md").read_text()
    found = re.findall(r"```(nginx|haproxy|caddy)\n(.*?)```", page, re.S)
    kinds = {"nginx": "nginx", "caddy": "caddy"}
    return {kinds.get(kind) or ("haproxy-tcp" if "mode tcp" in text else "haproxy"): text for kind, text in found}


class Proxy:
    """kind: one of snippets(), or haproxy-pass: the one in TCP mode without its TLS, which ends at the server; ca: who vouches for that."""

    def __init__(self, kind, inner, ca=None):
        self.dir = Path(tempfile.mkdtemp(prefix="as-proxy-"))
        self.port, self.process = free_port(), None
        try:
            self._start(kind, inner, ca)
        except BaseException:
            self.close()
            raise

    def _start(self, kind, inner, ca):
        crt, key, pem, conf = (self.dir / n for n in ("crt", "key", "pem", "conf"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={NAME}",
             "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", crt], check=True, capture_output=True)  # fmt: skip
        pem.write_bytes(crt.read_bytes() + key.read_bytes())
        text = snippets()["haproxy-tcp"].replace(" ssl crt /etc/ssl/sandbox.pem", "") if kind == "haproxy-pass" else snippets()[kind]
        for old, new in (("/etc/ssl/sandbox.crt", crt), ("/etc/ssl/sandbox.key", key), ("/etc/ssl/sandbox.pem", pem), ("127.0.0.1:8080", f"127.0.0.1:{inner}"), ("/var/log/nginx/access.log", self.dir / "access"),
                         ("listen 443", f"listen 127.0.0.1:{self.port}"), ("bind :443", f"bind 127.0.0.1:{self.port}"), (f"{NAME}:443", f"{NAME}:{self.port}")):  # fmt: skip
            text = text.replace(old, str(new))
        if kind == "nginx":
            text, command = NGINX.format(dir=self.dir, text=text), ["nginx", "-e", self.dir / "log", "-c", conf]
        elif kind == "caddy":
            text = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n}\n" + text
            command = ["caddy", "run", "--adapter", "caddyfile", "--config", conf]
        else:
            command = ["haproxy", "-db", "-f", conf]
        conf.write_text(text)
        self.context = ssl.create_default_context(cafile=str(ca or crt))
        with open(self.dir / "said", "wb") as said:
            env = {
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": str(self.dir),
                "XDG_DATA_HOME": str(self.dir),
                "XDG_CONFIG_HOME": str(self.dir),
            }
            self.process = subprocess.Popen(
                [*map(str, command)], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=env, start_new_session=True
            )
        assert wait_until(self._listens, 60) and self.process.poll() is None, (self.dir / "said").read_text()

    def _listens(self):
        with socket.socket() as s:
            return self.process.poll() is not None or s.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self, address="127.0.0.77"):
        """From an address that is nobody else's."""
        s = socket.create_connection(("127.0.0.1", self.port), 30, (address, 0))
        try:
            return self.context.wrap_socket(s, server_hostname=NAME)
        except BaseException:
            s.close()
            raise

    def close(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
        shutil.rmtree(self.dir, ignore_errors=True)
