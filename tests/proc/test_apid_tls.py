"""TLS of apid: what it speaks and refuses, certificates by name and of clients, new ones without a break, and keyd's faults."""

import contextlib
import csv
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import layout
import pytest
from apid_server import BOX_URL, KEY, SANITIZED, head, post, statuses
from machine import wait_until
from test_apid_limits import CLIENT, asked, proxy_header
from tls_kit import Certificates, TlsServer, TlsSocket, Truncated


@pytest.fixture(scope="module")
def server():
    with TlsServer() as s:
        yield s


@pytest.fixture(autouse=True)
def next_request_works(request):
    yield
    if "server" in request.fixturenames:
        s = request.getfixturevalue("server")
        s.on.clear()
        assert s("GET", "/healthz", key=None).status_code == 200


def openssl(server, *words, sent=b"", timeout=60):
    """What openssl s_client says."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", server.certificates.authority.cert]
    done = subprocess.run([*command, *words], input=sent, capture_output=True, timeout=timeout)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def versions(only):
    return {"minimum_version": only, "maximum_version": only}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", ["p256", "p384", "rsa"])
def test_keys_of_every_kind_serve_both_versions(version, kind):
    certificates = Certificates(("IP:127.0.0.1",), kinds=(kind,))
    with TlsServer(certificates) as s, s.connect(context=s.context(**versions(version))) as c:
        c.sendall(head("GET", BOX_URL))
        assert statuses(c.recv(65536)) == [200]
        assert "GCM" in c.tls.cipher()[0] or "CHACHA20" in c.tls.cipher()[0]
    certificates.close()


@pytest.mark.parametrize(
    "options", [["-tls1_1"], ["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], ["-tls1_2", "-cipher", "AES128-GCM-SHA256"]]
)
def test_old_versions_and_suites_without_aead_or_forward_secrecy_are_refused(server, options):
    said = openssl(
        server,
        "-cipher" if "-cipher" not in options else "-quiet",
        "ALL:@SECLEVEL=0" if "-cipher" not in options else "-no_ign_eof",
        *options,
    )
    assert "Cipher is (NONE)" in said or "alert" in said or "error" in said, said
    assert "Verification: OK" not in said or "(NONE)" in said


def test_renegotiation_is_refused(server):
    said = openssl(server, "-tls1_2", sent=b"R\n")
    assert "no renegotiation" in said.lower() or "handshake failure" in said.lower(), said
    assert "Compression: NONE" in said


def test_early_data_is_not_offered_and_not_taken(server, tmp_path):
    session, early = tmp_path / "session", tmp_path / "early"
    early.write_bytes(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    said = openssl(server, "-tls1_3", "-sess_out", session, "-ign_eof", sent=b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert "Max Early Data: 0" in said and session.exists(), said
    said = openssl(server, "-tls1_3", "-sess_in", session, "-early_data", early)
    assert "Early data was accepted" not in said


def test_alpn_is_http_1_1_and_nothing_else(server):
    context = server.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with server.connect(context=context) as c:
        assert c.tls.selected_alpn_protocol() == "http/1.1"
    context = server.context()
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError, match="(?i)no.application.protocol"):
        server.connect(context=context)


def test_plain_http_at_the_tls_port_is_ended_and_not_served(server):
    with server.plain() as s:
        s.sendall(head("GET", "/healthz"))
        got = b""
        try:
            while part := s.recv(4096):
                got += part
        except ConnectionResetError:
            pass
    assert b"HTTP/" not in got


def test_client_that_comes_before_the_certificates_waits_for_them():
    """After a restart the port listens before they are there: nothing may be read as plain HTTP meanwhile."""

    class Early(TlsServer):
        sock = None

        def load(self, *args):
            if self.sock is None:
                plain = socket.create_connection(("127.0.0.1", self.port))
                self.sock = self.context().wrap_socket(plain, server_hostname="127.0.0.1", do_handshake_on_connect=False)
                self.sock.settimeout(1)
                with pytest.raises(TimeoutError):
                    self.sock.do_handshake()
            return super().load(*args)

    with Early() as s, s.sock as sock:
        sock.settimeout(60)
        sock.do_handshake()
        sock.sendall(head("GET", BOX_URL))
        assert statuses(sock.recv(65536)) == [200]
        assert " 400 " not in s.program.log()


def test_handshake_that_does_not_end_is_ended(server):
    with server.plain() as s, server.plain() as half:
        half.sendall(bytes.fromhex("16030100c8010000c40303"))
        start = time.monotonic()
        assert server("GET", BOX_URL).status_code == 200
        for sock in (s, half):
            sock.settimeout(60)
            try:
                assert sock.recv(100) == b""
            except ConnectionResetError:
                pass
        assert time.monotonic() - start > 5


def test_answers_one_after_the_other_arrive_whole(server):
    """libevent tells late that all is written; what was added meanwhile belongs to the same answer."""
    server.files["/workspace/big"] = data = os.urandom(3_000_001)
    session = server.session()
    for _ in range(60):
        answer = session.get(f"{server.url}{BOX_URL}/files?path=big", headers={"X-API-Key": KEY}, timeout=60)
        assert answer.content == data


def test_body_cut_without_close_notify_is_not_stored(server):
    def put(end):
        server.files.pop("/workspace/cut", None)
        with server.connect() as c:
            c.sendall(head("PUT", BOX_URL + "/files?path=cut", "Transfer-Encoding: chunked") + b"5\r\nwhole\r\n")
            end(c)
            server.wait_closed(c)
        return "/workspace/cut" in server.files

    assert put(lambda c: c.sendall(b"0\r\n\r\n"))
    assert not put(lambda c: c.cut())
    assert not put(lambda c: c.shutdown(socket.SHUT_WR))


def test_answer_that_ends_with_the_connection_ends_with_close_notify_and_a_broken_one_without(server):
    body = b'{"command":"echo hi"}'
    ask = f"POST {BOX_URL}/exec/stream HTTP/1.0\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    with server.connect() as c:
        c.sendall(ask)
        while c.recv(65536):  # Truncated is raised without it
            pass

    def breaks(r):
        r.send(layout.RECORD_META, layout.pack("r_meta", {"size": 9, "length": 9}))
        r.send(layout.RECORD_DATA, b"1234")

    server.on["FILE_READ"] = lambda s, m: s.spawn(m, breaks)
    with server.connect() as c, pytest.raises((Truncated, ConnectionResetError)):
        c.sendall(f"GET {BOX_URL}/files?path=x HTTP/1.0\r\nX-API-Key: {KEY}\r\n\r\n".encode())
        while c.recv(65536):
            pass


def test_certificate_goes_by_the_name_exact_before_wildcard_and_the_first_for_all_others():
    certificates = Certificates(
        ("DNS:one.test", "IP:127.0.0.1"), ("DNS:*.two.test",), ("DNS:exact.two.test", "DNS:three.test"), kinds=("p256", "rsa", "p384")
    )
    with TlsServer(certificates) as s:
        for name, index in (("one.test", 0), ("a.two.test", 1), ("exact.two.test", 2), ("THREE.test", 2)):
            with s.connect(name=name) as c:
                subject = dict(x[0] for x in c.tls.getpeercert()["subject"])
                assert subject["commonName"] == f"server {index}", name
        for name in ("other.test", "a.b.two.test", "two.test"):
            with pytest.raises(ssl.SSLCertVerificationError, match="(?i)mismatch"):
                s.connect(name=name)
    certificates.close()


def test_expired_certificate_is_served_with_a_warning_and_refused_by_clients():
    certificates = Certificates()
    certificates.pairs = [certificates.authority.issue("old", begins=-2, ends=-1)]
    with TlsServer(certificates) as s:
        assert "has expired" in s.program.log()
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            s.connect()
    certificates.close()


def test_client_certificate_is_optional_its_name_goes_to_managerd_and_a_bad_one_is_refused():
    certificates, other = Certificates(), Certificates()
    authority = certificates.authority
    with TlsServer(certificates, client_ca=authority.cert) as s:
        with s.connect() as c:
            c.sendall(head("GET", BOX_URL))
            assert statuses(c.recv(65536)) == [200]
        assert s.seen[-1].fields["ask"]["subject"] == ""
        good = s.context(client=authority.issue_client("ci-runner"))
        for _ in range(2):
            with s.connect(context=good) as c:
                c.sendall(head("GET", BOX_URL))
                assert statuses(c.recv(65536)) == [200]
            assert s.seen[-1].fields["ask"]["subject"] == "ci-runner"
        for pair in (authority.issue_client("x", begins=-2, ends=-1), other.authority.issue_client("x"), authority.issue("x")):
            with pytest.raises((ssl.SSLError, OSError)):
                with s.connect(context=s.context(client=pair)) as c:
                    c.sendall(head("GET", BOX_URL))
                    assert c.recv(100) == b""
                    raise ConnectionResetError
        assert wait_until(lambda: s.program.log().count("TLS handshake failed: ") == 3), s.program.log()
    certificates.close()
    other.close()


def test_certificate_that_ends_while_its_connection_is_open_stands_for_nobody_from_then_on():
    certificates = Certificates()
    with TlsServer(certificates, client_ca=certificates.authority.cert) as s:
        for seconds in (5, 20, 60):  # a machine that is busy needs more until the first answer
            end = time.time() + seconds
            pair = certificates.authority.issue_client("brief", ends=seconds / 86400)
            with contextlib.suppress(ssl.SSLError, OSError), s.connect(context=s.context(client=pair)) as c:
                c.sendall(head("GET", BOX_URL))
                assert statuses(c.recv(65536)) == [200]
                if s.seen[-1].fields["ask"]["subject"] == "brief":
                    time.sleep(max(end + 2 - time.time(), 0))
                    c.sendall(head("GET", BOX_URL))
                    assert statuses(c.recv(65536)) == [200]
                    assert s.seen[-1].fields["ask"]["subject"] == ""
                    break
        else:
            pytest.fail("no request came before the end of its certificate")
    certificates.close()


def test_ticket_resumes_with_the_client_certificate_until_the_authority_changes():
    certificates, other = Certificates(), Certificates()
    with TlsServer(certificates, client_ca=certificates.authority.cert) as s:
        context = s.context(client=certificates.authority.issue_client("ci"), **versions(ssl.TLSVersion.TLSv1_2))
        with s.connect(context=context) as c:
            session = c.tls.session
        with s.connect(context=context, session=session) as c:
            assert c.tls.session_reused
            c.sendall(head("GET", BOX_URL))
            assert statuses(c.recv(65536)) == [200] and s.seen[-1].fields["ask"]["subject"] == "ci"
        assert not s.load(client_ca=other.authority.cert).fields["failed"]
        with pytest.raises((ssl.SSLError, OSError)):
            with s.connect(context=context, session=session) as c:
                assert not c.tls.session_reused
                c.sendall(head("GET", BOX_URL))
                assert c.recv(100) == b""
                raise ConnectionResetError
    certificates.close()
    other.close()


def test_new_certificates_are_taken_while_a_stream_runs_and_it_goes_on():
    go = threading.Event()

    def work(r):
        r.recv()
        r.send(layout.RECORD_STARTED)
        r.send(layout.RECORD_STDOUT, b"before")
        go.wait(60)
        r.send(layout.RECORD_STDOUT, b"after")
        r.send(layout.RECORD_EXIT, layout.pack("r_exit"))

    with TlsServer() as s, s.connect() as c:
        s.on["EXEC"] = lambda s, m: s.spawn(m, lambda r: work(r))
        c.sendall(post(BOX_URL + "/exec/stream", {"command": "x"}, "Connection: close"))
        got = b""
        while b"before" not in got:
            got += c.recv(65536)
        new = s.certificates.authority.issue("new")
        assert not s.load([new]).fields["failed"]
        with s.connect() as d:
            assert dict(x[0] for x in d.tls.getpeercert()["subject"])["commonName"] == "new"
        go.set()
        while part := c.recv(65536):
            got += part
        assert b"after" in got and got.endswith(b"0\r\n\r\n")


def test_proxy_header_comes_off_before_the_first_record_and_is_believed_of_trusted_proxies_only():
    with TlsServer(TRUSTED_PROXIES="127.0.0.1") as s:
        for first, client in ((proxy_header(), CLIENT), (b"", "127.0.0.1"), (proxy_header(command=0x20), "127.0.0.1")):
            sock = s.plain()
            for i in range(0, len(first), 9):
                sock.sendall(first[i : i + 9])
                time.sleep(0.02)
            with TlsSocket(sock, s.context()) as c:
                c.sendall(head("GET", BOX_URL))
                assert statuses(c.recv(65536)) == [200] and asked(s)[1] == client
        for bad in (proxy_header(command=0x31), proxy_header() * 2):
            sock = s.plain()
            sock.sendall(bad)
            with pytest.raises((ssl.SSLError, OSError)):
                TlsSocket(sock, s.context())
        assert s.program.log().count("malformed PROXY header") == 1
    with TlsServer(TRUSTED_PROXIES="192.0.2.1") as s:
        sock = s.plain()
        sock.sendall(proxy_header())
        with pytest.raises((ssl.SSLError, OSError)):
            TlsSocket(sock, s.context())


def broken(s, name, tmp_path):
    """(pairs of a reload, what the answer names, its words)"""
    first, second = s.certificates.pairs[0], s.certificates.authority.issue("other")
    file = tmp_path / "cert"
    if name == "key of another":
        return [(first[0], second[1])], 0, "not that of the key"
    if name == "second is no certificate":
        file.write_text("nothing")
        return [first, (file, second[1])], 1, "no certificate in it"
    if name == "damaged":
        file.write_text(first[0].read_text().replace("M", "!", 3))
        return [(file, first[1])], 0, "cannot be read"
    if name == "with a private key":
        file.write_text(first[0].read_text() + first[1].read_text())
        return [(file, first[1])], 0, "private key is in it"
    file.write_bytes(b"x" * 300_000)
    return [(file, first[1])], 0, "larger than"


@pytest.mark.parametrize("name", ["key of another", "second is no certificate", "damaged", "with a private key", "too large"])
def test_reload_with_a_broken_file_says_which_and_the_old_ones_stay(server, name, tmp_path):
    pairs, index, words = broken(server, name, tmp_path)
    done = server.load(pairs)
    assert done.fields["failed"] and done.fields["index"] == index and words in done.tail.decode(), done
    with server.connect() as c:
        assert dict(x[0] for x in c.tls.getpeercert()["subject"])["commonName"] == "server 0"


def test_client_authority_that_cannot_be_read_is_named_as_such(server, tmp_path):
    file = tmp_path / "ca"
    file.write_text("nothing")
    done = server.load(client_ca=file)
    assert done.fields["failed"] and done.fields["index"] == 255 and "no certificate" in done.tail.decode()


def fault(s, what):
    """keyd's answer to the next signatures."""

    def between(m, answer):
        if m.name != "K_SIGN" or not s.faulty:
            return answer
        if what == "silent":
            return None
        if what == "wrong":
            return answer._replace(tail=answer.tail[:-1] + bytes([answer.tail[-1] ^ 1]))
        return answer._replace(fields=answer.fields | {"status": layout.KEY_REFUSED}, tail=b"")

    return between


@pytest.mark.parametrize("what", ["wrong", "refused"])
def test_signature_that_is_wrong_or_refused_fails_that_handshake_and_no_other(what):
    class Faulty(TlsServer):
        faulty = False

    s = Faulty.__new__(Faulty)
    s.__init__(between=fault(s, what))
    with s:
        with s.connect() as kept:
            s.faulty = True
            with pytest.raises((ssl.SSLError, OSError)):
                s.connect()
            s.faulty = False
            assert s("GET", BOX_URL).status_code == 200
            kept.sendall(head("GET", BOX_URL))
            assert statuses(kept.recv(65536)) == [200]


def test_keyd_that_says_nothing_is_fatal_after_two_seconds():
    class Faulty(TlsServer):
        faulty = False

    s = Faulty.__new__(Faulty)
    s.__init__(between=fault(s, "silent"))
    s.faulty = True
    with pytest.raises((ssl.SSLError, OSError)):
        s.connect()
    assert s.program.wait(30) == 1 and "keyd does not answer" in s.program.log()
    s.program.stop()
    s.end_keyd()


def test_end_of_keyd_ends_apid():
    s = TlsServer()
    os.kill(s.keyd.pid, signal.SIGKILL)
    assert s.program.wait(30) == 0
    s.stop()


def secrets(key):
    """The numbers of a private key that nobody else may have, in the byte orders that memory could have them in."""
    text = subprocess.run(["openssl", "pkey", "-in", key, "-noout", "-text"], check=True, capture_output=True, text=True).stdout
    found = []
    for name in ("priv", "privateExponent", "prime1", "prime2"):
        if m := re.search(rf"^{name}:\s*\n((?:\s+[0-9a-f:]+\n)+)", text, re.M):
            number = bytes.fromhex(re.sub(r"[\s:]", "", m[1])).lstrip(b"\0")
            found += [number[:24], number[::-1][:24], number[-24:], number[::-1][-24:]]
    assert found
    return [*found, key.read_bytes().split(b"\n")[1]]


def memory(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if line.split()[1].startswith("r") and "[v" not in line:
                try:
                    mem.seek(start)
                    yield mem.read(end - start)
                except OSError:
                    pass


@pytest.mark.skipif(os.geteuid() != 0 or SANITIZED, reason="reads the memory of another user's process")
@pytest.mark.parametrize("kind", ["p256", "rsa"])
def test_apids_memory_never_holds_the_key(kind):
    certificates = Certificates(kinds=(kind,))
    with TlsServer(certificates) as s:
        for _ in range(20):
            assert s("GET", BOX_URL).status_code == 200
        s.load()
        want = secrets(certificates.pairs[0][1])
        held = b"".join(memory(s.keyd.pid))
        assert any(x in held for x in want), "the search finds nothing where the key is"
        held = b"".join(memory(s.program.pid))
        assert len(held) > 1_000_000 and b"server 0" in held
        assert not any(x in held for x in want)
    certificates.close()


def test_testssl_finds_nothing(server, tmp_path):
    """Of protocols, suites, forward secrecy and known attacks; what it says of the certificate is about the authority of the tests."""
    found = tmp_path / "found.csv"
    command = ["testssl", "--quiet", "--color", "0", "--warnings", "off", "--openssl-timeout", "20", "--csvfile", found]
    command += ["-p", "-s", "-f", "-P", "-U", "--ip", "one", f"127.0.0.1:{server.port}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=1200)
    with open(found) as f:
        rows = list(csv.DictReader(f))
    assert {"TLS1_2", "TLS1_3", "heartbleed", "secure_client_renego"} <= {row["id"] for row in rows}, done.stdout[-3000:]
    bad = [row for row in rows if row["severity"] in ("MEDIUM", "HIGH", "CRITICAL") and not row["id"].startswith("cert_")]
    assert bad == [], bad
