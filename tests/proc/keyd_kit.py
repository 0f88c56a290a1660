"""A keyd under test with the test in the place of parent and apid, keys of all kinds, and what a TLS server signs."""

import functools
import os
import subprocess
from pathlib import Path

import layout

VERIFY = b" " * 64 + b"TLS 1.3, server CertificateVerify\0"
RANDOMS = bytes(range(64))
P256, P384 = layout.SCHEME_ECDSA_P256_SHA256, layout.SCHEME_ECDSA_P384_SHA384
PSS = {
    "sha256": layout.SCHEME_RSA_PSS_SHA256,
    "sha384": layout.SCHEME_RSA_PSS_SHA384,
    "sha512": layout.SCHEME_RSA_PSS_SHA512,
}
DIGESTS = {P256: "sha256", P384: "sha384"} | {scheme: digest for digest, scheme in PSS.items()}
TLS13 = {"verify-sha256": VERIFY + bytes(range(32)), "verify-sha384": VERIFY + bytes(range(48))}
TLS12 = {
    "exchange-p256": RANDOMS + b"\3\0\x17\x41\4" + bytes(range(64)),
    "exchange-p384": RANDOMS + b"\3\0\x18\x61\4" + bytes(range(96)),
    "exchange-x25519": RANDOMS + b"\3\0\x1d\x20" + bytes(range(32)),
}
INPUTS = TLS13 | TLS12


def ec(curve):
    return ["-algorithm", "EC", "-pkeyopt", f"ec_paramgen_curve:{curve}"]


def rsa(bits, kind="RSA"):
    return ["-algorithm", kind, "-pkeyopt", f"rsa_keygen_bits:{bits}"]


KINDS = {
    "p256": ec("P-256"),
    "p384": ec("P-384"),
    "rsa": rsa(2048),
    "rsa-4096": rsa(4096),
    # of which keyd takes none
    "p521": ec("P-521"),
    "k256": ec("secp256k1"),
    "brainpool": ec("brainpoolP256r1"),
    "rsa-1024": rsa(1024),
    "rsa-2047": rsa(2047),
    "rsa-4104": rsa(4104),
    "rsa-pss": rsa(2048, "RSA-PSS"),
    "ed25519": ["-algorithm", "ED25519"],
    "x25519": ["-algorithm", "X25519"],
}


def openssl(*words, data=None):
    return subprocess.run(["openssl", *map(str, words)], input=data, check=True, capture_output=True).stdout


@functools.cache
def pem(kind, number=0):
    """A private key, the same one for the same words."""
    return openssl("genpkey", *KINDS[kind])


def public(key):
    """DER SubjectPublicKeyInfo."""
    return openssl("pkey", "-pubout", "-outform", "DER", data=key)


def private_numbers(key):
    """What must stay secret of a key, as bytes: big numbers, highest byte first."""
    text = openssl("pkey", "-noout", "-text", data=key).decode()
    out, name = {}, None
    for line in text.splitlines():
        if not line.startswith(" "):
            name = line.partition(":")[0]
        elif name is not None:
            out[name] = out.get(name, "") + line.replace(":", "").strip()
    wanted = ("priv", "privateExponent", "prime1", "prime2", "exponent1", "exponent2", "coefficient")
    return {n: bytes.fromhex(v).lstrip(b"\0") for n, v in out.items() if n in wanted}


def verifies(folder, key, scheme, data, signature):
    """Whether openssl says that this is the key's signature of the data by the scheme."""
    files = {"public": openssl("pkey", "-pubout", data=key), "data": data, "signature": signature}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    words = ["dgst", f"-{DIGESTS[scheme]}", "-verify", folder / "public", "-signature", folder / "signature"]
    if scheme in PSS.values():
        words += ["-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:digest"]
    return subprocess.run(["openssl", *words, folder / "data"], capture_output=True).returncode == 0


class Keyd(layout.Program):
    """keys: PEM texts of generation 1, which must be good."""

    def __init__(self, folder, keys=(), **more):
        super().__init__("keyd", ["chan"] * 2, **more)
        self.apid, self.managerd = self.peers
        self.folder, self._id, self._given = Path(folder), 0, 0
        if keys:
            assert self.load(1, keys) is None

    def give(self, generation, index, count, file):
        """file: a PEM text, a path, or a descriptor."""
        if isinstance(file, bytes):
            self._given += 1
            path = self.folder / f"given{self._given}.key"
            path.write_bytes(file)
            file = path
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK) if isinstance(file, Path) else file
        self.parent.send("P_KEYFILE", 0, {"generation": generation, "index": index, "count": count}, fd=fd)
        if isinstance(file, Path):
            os.close(fd)

    def load(self, generation, files):
        """None, or which was not good and why."""
        for index, file in enumerate(files):
            self.give(generation, index, len(files), file)
        m = self.parent.expect("P_KEYED")
        assert m.fields["generation"] == generation
        return (m.fields["index"], m.tail.decode()) if m.fields["failed"] else None

    def _ask(self, name, answer, fields, data=b""):
        self._id += 1
        self.apid.send(name, self._id, fields, data)
        m = self.apid.expect(answer, id=self._id)
        assert m.fields["status"] == layout.KEY_OK or m.tail == b""
        return m.fields["status"], m.tail

    def public(self, generation=1, index=0):
        """status, DER"""
        return self._ask("K_PUBLIC", "K_PUBLIC_IS", {"generation": generation, "index": index})

    def sign(self, data, scheme=P256, generation=1, index=0):
        """status, signature"""
        return self._ask("K_SIGN", "K_SIGNED", {"generation": generation, "index": index, "scheme": scheme}, data)

    def use(self, generation):
        self.apid.send("K_USE", 0, {"generation": generation})

    def forget(self, generation):
        self.parent.send("P_FORGET", 0, {"generation": generation})
