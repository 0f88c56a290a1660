"""A certificate authority of a test: certificates of servers and clients, also ones that are not good."""

import ssl
import subprocess
import time
from pathlib import Path

CONFIG = """
[ca]
default_ca = one
[one]
database = {folder}/index
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
[server]
basicConstraints = critical,CA:false
extendedKeyUsage = serverAuth
subjectAltName = {names}
[client]
basicConstraints = critical,CA:false
extendedKeyUsage = clientAuth
"""
KINDS = {
    "p256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
    "p384": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
    "rsa": ["-newkey", "rsa:2048"],
}


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def moment(days):
    """As openssl ca writes times: so many days from now."""
    return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + days * 86400))


class Authority:
    """.cert is what its clients trust. A certificate comes as two paths: (certificate, private key)."""

    def __init__(self, folder, name="Authority of the tests"):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.cert, self.key, self._count = self.folder / "ca.crt", self.folder / "ca.key", 0
        (self.folder / "index").touch()
        openssl(
            "req", "-x509", *KINDS["p256"], "-nodes", "-days", "30", "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.cert,
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def issue(self, cn, names=("IP:127.0.0.1", "DNS:localhost"), kind="p256", begins=-1, ends=20, usage="server"):
        """names: for subjectAltName. begins, ends: in days from now."""
        self._count += 1
        base = self.folder / str(self._count)
        cert, key, request, config = (base.with_suffix(s) for s in (".crt", ".key", ".csr", ".cnf"))
        config.write_text(CONFIG.format(folder=self.folder, names=",".join(names)))
        openssl("req", "-new", *KINDS[kind], "-nodes", "-subj", f"/CN={cn}", "-keyout", key, "-out", request)
        openssl(
            "ca", "-batch", "-notext", "-config", config, "-cert", self.cert, "-keyfile", self.key, "-extensions", usage, "-in", request,
            "-startdate", moment(begins), "-enddate", moment(ends), "-outdir", self.folder, "-out", cert,
        )  # fmt: skip
        key.chmod(0o600)
        return cert, key

    def issue_client(self, cn, **more):
        return self.issue(cn, names=("DNS:unused",), usage="client", **more)


def server_context(pair, client_ca=None, required=True):
    """For a server in Python: its certificate, and whose client certificates it takes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    if client_ca is not None:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context
