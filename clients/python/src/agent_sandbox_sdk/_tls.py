"""Whom a client trusts and what it shows: from arguments and the environment to an ssl.SSLContext; and what a failure means."""

from __future__ import annotations

import os
import ssl
from typing import Optional, Union

import httpx

from ._config import config_error
from ._errors import one_line
from ._files import PathLike

ClientCert = Union[PathLike, tuple[PathLike, PathLike]]

_PEM_MAX = 1 << 20
# Of X509_STORE_CTX_get_error(3).
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_NAME = (62, 63, 64)
# Alerts of a server that wants a client certificate, or another one.
_WANTS_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "ALERT_UNKNOWN_CA",
    "ALERT_BAD_CERTIFICATE",
    "CERTIFICATE_EXPIRED",
    "CERTIFICATE_REVOKED",
    "CERTIFICATE_UNKNOWN",
    "UNSUPPORTED_CERTIFICATE",
)


def _no_passphrase() -> str:
    raise config_error("the client certificate's key is encrypted, for which there is no passphrase here")


def _check_key(path: str) -> None:
    """Nobody else can read it, and there is one."""
    with open(path, "rb") as f:
        mode, text = os.fstat(f.fileno()).st_mode, f.read(_PEM_MAX)
    if b"PRIVATE KEY-----" not in text:
        raise config_error(f"client certificate {path}: there is no private key in it: give a pair, (certificate, key)")
    if os.name == "posix" and mode & 0o077:
        raise config_error(f"client certificate {path}: others can read its key; run: chmod 600 {path}")


class Trust:
    """Files in PEM: ca_file is trusted instead of what this machine trusts; the certificate is one path, when it has the key too, or two."""

    def __init__(self, ca_file: Optional[PathLike], client_cert: Optional[ClientCert]) -> None:
        self.given = ca_file is not None or client_cert is not None
        env = os.environ.get
        ca = ca_file if ca_file is not None else env("AGENT_SANDBOX_CA_FILE") or None
        self.ca_file = None if ca is None else os.fspath(ca)
        if client_cert is None:
            client_cert = env("AGENT_SANDBOX_CLIENT_CERT") or None
            if client_cert is not None and (key := env("AGENT_SANDBOX_CLIENT_KEY")):
                client_cert = (client_cert, key)
        self.cert: Optional[tuple[str, str]] = None
        if isinstance(client_cert, tuple):
            self.cert = (os.fspath(client_cert[0]), os.fspath(client_cert[1]))
        elif client_cert is not None:
            self.cert = (os.fspath(client_cert), os.fspath(client_cert))

    def context(self) -> Optional[ssl.SSLContext]:
        """None: httpx's own will do."""
        if self.ca_file is None and self.cert is None:
            return None
        context = httpx.create_ssl_context() if self.ca_file is None else self._with_ca(self.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.cert is not None:
            self._show(context, *self.cert)
        return context

    @staticmethod
    def _with_ca(path: str) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=path)
        except ssl.SSLError as exc:
            raise config_error(f"CA file {path}: there is no certificate in it ({exc.reason}); PEM is wanted") from None
        except OSError as exc:
            raise config_error(f"CA file {path}: {exc.strerror}") from None
        # Whoever names a certificate trusts that one, whatever it is: also the server's own.
        context.verify_flags |= getattr(ssl, "VERIFY_X509_PARTIAL_CHAIN", 0x80000)
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        return context

    @staticmethod
    def _show(context: ssl.SSLContext, cert: str, key: str) -> None:
        try:
            _check_key(key)
            context.load_cert_chain(cert, key, password=_no_passphrase)
        except ssl.SSLError as exc:
            why = exc.reason or one_line(str(exc))
            raise config_error(f"client certificate {cert} with the key in {key} cannot be used: {why}") from None
        except OSError as exc:
            which = key if not os.path.exists(key) else cert
            raise config_error(f"client certificate {which}: {exc.strerror}") from None


def failure(exc: BaseException) -> Optional[ssl.SSLError]:
    """What TLS had against it, if that is what went wrong."""
    cause: Optional[BaseException] = exc
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None


def wants_certificate(error: Optional[ssl.SSLError]) -> bool:
    """The server ended TLS for want of a client certificate. With TLS 1.3 that is heard only after the request was sent, and nothing of that was read."""
    reason = (error.reason or "").upper() if error is not None else ""
    return any(word in reason for word in _WANTS_CERTIFICATE)


def explain(where: str, error: ssl.SSLError, why: str) -> str:
    """One sentence: what is wrong, and what to do."""
    if wants_certificate(error):
        return f"{where} does not take the client certificate, or wants one ({why}): give client_cert=, or set AGENT_SANDBOX_CLIENT_CERT"
    if not isinstance(error, ssl.SSLCertVerificationError):
        return f"no secure connection to {where}: {why}"
    if error.verify_code in _OTHER_NAME:
        return f"the certificate of {where} is of another name ({error.verify_message}): nothing was sent; ask for a name that is in it"
    if error.verify_code == _EXPIRED:
        return f"the certificate of {where} has expired: nothing was sent; its server needs a new one, if the clock here is right"
    if error.verify_code == _NOT_YET_VALID:
        return f"the certificate of {where} is not valid yet: nothing was sent; check the clock here and there"
    return (
        f"the certificate of {where} is not trusted ({error.verify_message}): nothing was sent; "
        "give the CA file with ca_file= or AGENT_SANDBOX_CA_FILE"
    )
