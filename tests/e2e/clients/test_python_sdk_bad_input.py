"""The Python SDK against what must not happen: hostile archives, broken files, wrong configurations, cancelled tasks, odd proxies."""

import asyncio
import contextlib
import errno
import gc
import gzip
import io
import json
import os
import pickle
import signal
import ssl
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import agent_sandbox_sdk as sdk
import httpx
import pytest
import trap as t
from drivers import clean_env, listing
from harness import KEY, ROOT
from machine import wait_until


@pytest.fixture
def client(trap):
    with sdk.SandboxClient(trap.url, KEY) as c:
        yield c


def handle(client):
    cls = sdk.Sandbox if isinstance(client, sdk.SandboxClient) else sdk.AsyncSandbox
    return cls(client, t.SANDBOX)


def entry(name, kind=tarfile.REGTYPE, data=b"", link="", mode=0o644, **pax):
    e = tarfile.TarInfo(name)
    e.type, e.linkname, e.mode, e.size, e.pax_headers = kind, link, mode, len(data), pax
    return e, data


ROOT_ENTRY = entry(".", tarfile.DIRTYPE, mode=0o755)


def tar(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as f:
        for e, data in entries:
            f.addfile(e, io.BytesIO(data))
    return out.getvalue()


def fetch(client, trap, tmp_path, data, name="d"):
    trap.on("GET .*/files/archive", t.reply(200, data, "application/x-tar"))
    return handle(client).download_folder("d", tmp_path / name)


SYM, LNK, DIR = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
ESCAPES = {
    "a step up": [entry("../out", data=b"x")],
    "steps in the middle": [entry("a/../../out", data=b"x")],
    "an absolute name": [entry("/tmp/agent-sandbox-out", data=b"x")],
    "a folder above": [entry("..", DIR)],
    "a hard link to a file of the host": [entry("h", LNK, link="/etc/passwd")],
    "a hard link to what is not in it": [entry("h", LNK, link="../../etc/passwd")],
    "a file below a link": [entry("l", SYM, link="."), entry("l/f", data=b"x")],
    "a file below a link that leads out": [entry("l", SYM, link="../.."), entry("l/f", data=b"x")],
    "a folder over a link": [entry("l", SYM, link="."), entry("l", DIR)],
    "a file over a link": [entry("l", SYM, link="f"), entry("l", data=b"x")],
    "a file twice": [entry("f", data=b"x"), entry("f", data=b"y")],
    "a file below a file": [entry("f", data=b"x"), entry("f/g", data=b"y")],
    "a hard link to a link": [entry("l", SYM, link="f"), entry("h", LNK, link="l")],
    "no name": [entry("./", data=b"x")],
}


@pytest.mark.parametrize("what", list(ESCAPES))
def test_archive_that_would_write_elsewhere_is_refused_whole(client, trap, tmp_path, what):
    place = tmp_path / "a/b/c"
    place.mkdir(parents=True)
    with pytest.raises(sdk.SandboxAnswerError):
        fetch(client, trap, place, tar(ROOT_ENTRY, entry("fine", data=b"x"), *ESCAPES[what]))
    assert listing(tmp_path) == ["a", "a/b", "a/b/c"] and not os.path.exists("/tmp/agent-sandbox-out")


@pytest.mark.parametrize(
    "links",
    [
        {"out": "/etc"}, {"out": "../x"}, {"d/out": "../../x"}, {"out": "d/../../x"}, {"d/s": "..", "d/out": "s/../x"},
        {"s": "d", "out": "s/../../etc"}, {"out": ".."}, {"out": "./.././x"},
    ],
)  # fmt: skip
def test_links_that_lead_out_are_left_out_and_named(client, trap, tmp_path, links):
    data = tar(ROOT_ENTRY, entry("d", DIR, mode=0o755), *(entry(n, SYM, link=to) for n, to in links.items()))
    left = fetch(client, trap, tmp_path, data)
    assert left == [n for n in links if n.endswith("out")]
    for path in (tmp_path / "d").rglob("*"):
        assert (tmp_path / "d").resolve() in [path.resolve(), *path.resolve().parents]


def test_devices_pipes_and_dangerous_modes_do_not_come_through(client, trap, tmp_path):
    special = [entry(n, k) for n, k in (("c", tarfile.CHRTYPE), ("b", tarfile.BLKTYPE), ("p", tarfile.FIFOTYPE))]
    data = tar(
        ROOT_ENTRY, *special, entry("suid", data=b"x", mode=0o6777), entry("none", data=b"y", mode=0), entry("dir", DIR, mode=0o1000),
        entry("dir/f", data=b"z"),
    )  # fmt: skip
    old = os.umask(0o027)
    try:
        assert fetch(client, trap, tmp_path, data) == ["c", "b", "p"]
    finally:
        os.umask(old)
    modes = {n: os.stat(tmp_path / "d" / n).st_mode & 0o7777 for n in listing(tmp_path / "d")}
    assert modes == {"suid": 0o750, "none": 0o600, "dir": 0o700, "dir/f": 0o640}
    assert os.stat(tmp_path / "d").st_mode & 0o7777 == 0o750


def test_names_that_are_no_utf8_come_through(client, trap, tmp_path):
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    fetch(client, trap, tmp_path, tar(ROOT_ENTRY, entry(name, data=b"x"), entry("a\nb\x1b[2J", data=b"y")))
    assert os.listdir(os.fsencode(tmp_path / "d")).count(b"\xff\xfe") == 1 and (tmp_path / "d/a\nb\x1b[2J").read_text() == "y"


def test_file_with_a_hole_of_a_terabyte_is_no_burden(client, trap, tmp_path):
    size = 1 << 40
    body = b"1\n%d\n5\n" % (size - 5)
    stored = body.ljust(512, b"\0") + b"12345"
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "big", "GNU.sparse.realsize": str(size)}
    fetch(client, trap, tmp_path, tar(ROOT_ENTRY, entry("GNUSparseFile.0/big", data=stored, **pax)))
    info = os.stat(tmp_path / "d/big")
    assert info.st_size == size and info.st_blocks < 1000
    with open(tmp_path / "d/big", "rb") as f:
        f.seek(size - 5)
        assert f.read() == b"12345"


def raw(kind, size, data=b""):
    e = tarfile.TarInfo("e")
    e.type, e.size = kind, size
    return e.tobuf(tarfile.GNU_FORMAT) + data.ljust(-len(data) % 512 + len(data), b"\0")


BROKEN = {
    "an entry without end of a kind that is none": tar(ROOT_ENTRY)[:512] + raw(b"Z", 1 << 62) + bytes(1024),
    "a header without end": tar(ROOT_ENTRY)[:512] + raw(tarfile.XHDTYPE, 1 << 40) + bytes(12 << 20),
    "a header that is too large": tar(ROOT_ENTRY, entry("f", data=b"x", comment="x" * (12 << 20))),
    "headers of headers": tar(ROOT_ENTRY)[:512] + raw(tarfile.XHDTYPE, 10, b"10 abc=de\n") * 3000 + tar(entry("f", data=b"x")),
    "no tar": b"x" * 2000,
    "empty": b"",
    "a file instead of a folder": tar(entry("f", data=b"x")),
    "cut in a header": tar(ROOT_ENTRY, entry("f", data=b"x"))[:700],
    "cut in a file": tar(ROOT_ENTRY, entry("f", data=b"x" * 5000))[:3000],
    "a wrong checksum in the middle": tar(ROOT_ENTRY, entry("f", data=b"x")).rstrip(b"\0").ljust(1536, b"\0") + b"?" * 512 + bytes(1024),
    "a wrong checksum": tar(ROOT_ENTRY, entry("f", data=b"x")).replace(b"ustar", b"vstar"),
    "a lying map of holes": tar(
        ROOT_ENTRY,
        entry("G/x", data=b"1\n0\n9999\n".ljust(512, b"\0"), **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x",
              "GNU.sparse.realsize": "9999"}),
        entry("f", data=b"x"),
    ),
    "a map with numbers below nothing": tar(
        ROOT_ENTRY,
        entry("G/x", data=b"1\n-9\n5\n".ljust(512, b"\0"), **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x",
              "GNU.sparse.realsize": "-1"}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", list(BROKEN))
def test_archive_that_is_broken_leaves_nothing(client, trap, tmp_path, what):
    with pytest.raises(sdk.SandboxAPIError):
        fetch(client, trap, tmp_path, BROKEN[what])
    assert listing(tmp_path) == []


def test_name_that_no_system_takes_is_refused_at_once(client, trap, tmp_path):
    with pytest.raises(OSError, match="name too long"):
        fetch(client, trap, tmp_path, tar(ROOT_ENTRY, entry("a/" * 1000000 + "f", data=b"x")))
    assert os.listdir(tmp_path) == []


def test_broken_archive_deeper_than_python_recurses_leaves_nothing(client, trap, tmp_path):
    deep = tar(ROOT_ENTRY, entry("d/" * 1200 + "f", data=b"deep"))
    with pytest.raises(sdk.SandboxAnswerError):
        fetch(client, trap, tmp_path, deep[: deep.rindex(b"deep") + 512] + b"?" * 512 + bytes(1024))
    assert os.listdir(tmp_path) == []


def test_folder_deeper_than_python_recurses_goes_both_ways(client, trap, tmp_path):
    name = "d/" * 1200 + "f"
    fetch(client, trap, tmp_path, tar(ROOT_ENTRY, entry(name, data=b"deep")))
    trap.on("PUT .*/files/archive", t.reply(200, {"path": "/workspace"}))
    handle(client).upload_folder(tmp_path / "d")
    with tarfile.open(fileobj=io.BytesIO(trap.requests("PUT .*archive")[0].body)) as sent:
        assert sent.getnames()[-1] == name
    subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


def test_unpacked_folder_never_takes_the_place_of_something(client, trap, tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(FileExistsError):
        fetch(client, trap, tmp_path, tar(ROOT_ENTRY))
    (tmp_path / "l").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        fetch(client, trap, tmp_path, tar(ROOT_ENTRY), name="l")
    assert listing(tmp_path) == ["d", "l"] and not trap.requests("GET .*/archive")


def test_file_that_appears_meanwhile_is_not_overwritten(client, trap, tmp_path):
    def late(conn, seen, ended):
        (tmp_path / "f").write_text("theirs")
        conn.sendall(t.reply(200, b"ours", "application/octet-stream"))

    trap.on("GET .*/files", late)
    with pytest.raises(FileExistsError):
        handle(client).download("f", tmp_path / "f")
    assert listing(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "theirs"


def test_overwriting_replaces_a_link_and_never_a_device_or_folder(client, trap, tmp_path):
    trap.on("GET .*/files", t.reply(200, b"new", "application/octet-stream"))
    (tmp_path / "precious").write_text("old")
    (tmp_path / "l").symlink_to("precious")
    handle(client).download("f", tmp_path / "l", overwrite=True)
    assert (tmp_path / "precious").read_text() == "old" and not (tmp_path / "l").is_symlink()
    os.mkfifo(tmp_path / "p")
    (tmp_path / "d").mkdir()
    for name in ("p", "d"):
        with pytest.raises(OSError):
            handle(client).download("f", tmp_path / name, overwrite=True)
    assert listing(tmp_path) == ["d", "l", "p", "precious"]


def test_download_into_a_file_object_and_progress_that_raises(client, trap, tmp_path):
    data = os.urandom(300000)
    trap.on("GET .*/files", t.reply(200, data, "application/octet-stream"))
    steps, out = [], io.BytesIO()
    assert handle(client).download("f", out, progress=lambda done, total: steps.append((done, total))) == len(data)
    assert out.getvalue() == data and steps == sorted(steps) and steps[-1] == (len(data), len(data))
    with pytest.raises(ZeroDivisionError):
        handle(client).download("f", tmp_path / "f", progress=lambda done, total: 1 / 0)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("head", ["Content-Encoding: gzip", "Content-Type: text/html", None])
def test_file_in_other_clothes_is_not_taken_for_the_file(client, trap, tmp_path, head):
    lines = ["HTTP/1.1 200 OK", "Connection: close"]
    lines += (
        ["Content-Type: application/octet-stream"] * (head is None or "Type" not in head)
        + [head or "X: y"]
        + ["Content-Length: 3"] * bool(head)
    )
    trap.on("GET .*/files", "\r\n".join([*lines, "", "abc"]).encode())
    with pytest.raises(sdk.SandboxAnswerError):
        handle(client).download("f", tmp_path / "f")
    with pytest.raises(sdk.SandboxAnswerError):
        handle(client).read_file("f")
    assert listing(tmp_path) == []


@pytest.mark.parametrize("status", [200, 400])
def test_packed_answer_that_was_not_asked_for_is_not_unpacked(client, trap, status):
    packed = gzip.compress(gzip.compress(json.dumps(t.SANDBOX).encode()))
    trap.on("GET ", t.reply(status, packed, Content_Encoding="gzip, gzip"))
    with pytest.raises(sdk.SandboxAnswerError, match="content encoding"):
        client.get(t.SANDBOX_ID)
    trap.on("POST ", t.reply(status, packed, "application/x-ndjson", Content_Encoding="gzip, gzip"))
    with pytest.raises(sdk.SandboxAnswerError, match="content encoding"):
        list(handle(client).exec_stream("x"))


def test_sandbox_knows_its_list_and_whether_it_has_one():
    for kind in (sdk.Sandbox, sdk.AsyncSandbox):
        for given in (None, [], ["a.example"]):
            assert kind(None, t.SANDBOX | {"egress_allowlist": given}).egress_allowlist == given


def test_string_is_no_list_of_hosts(client, trap):
    for call in (lambda: client.create(egress_allowlist="a.example"), lambda: client.run("1", egress_allowlist="a.example")):
        with pytest.raises(TypeError, match="list of hosts"):
            call()
    assert trap.seen == []


# Uploads.


def test_upload_after_a_lost_connection_begins_anew(client, trap, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 700000)
    info = {"name": "f", "path": "/workspace/f", "type": "file", "size": 700000, "modified_at": ""}
    for source in (tmp_path / "f", io.BytesIO(b"x" * 700000)):
        trap.on("PUT .*/files", t.nothing(), t.reply(200, info))
        before, steps = len(trap.seen), []
        assert handle(client).upload(source, "f", progress=lambda done, total, steps=steps: steps.append((done, total))).size == 700000
        assert [len(s.body) for s in trap.seen[before:]] == [700000, 700000]
        assert steps[-1] == (700000, 700000) and all(s.headers["content-length"] == "700000" for s in trap.seen[before:])


def test_upload_of_what_cannot_be_read_again_is_sent_once(client, trap):
    r, w = os.pipe()
    os.write(w, b"data")
    os.close(w)
    trap.on("PUT .*/files", t.nothing())
    with os.fdopen(r, "rb") as f, pytest.raises(sdk.SandboxConnectionLostError):
        handle(client).upload(f, "f")
    assert [s.body for s in trap.requests("PUT")] == [b"data"]
    assert trap.requests("PUT")[0].headers["transfer-encoding"] == "chunked"


def test_upload_of_a_file_that_changes_is_no_mixture(client, trap, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 1000000)

    def shrink(done, total):
        os.truncate(tmp_path / "f", 0)

    trap.on("PUT .*/files", t.refusal(400, "invalid_request"))
    with pytest.raises(OSError) as wrong:
        handle(client).upload(tmp_path / "f", "f", progress=shrink)
    assert wrong.value.errno == errno.EIO and not trap.requests("PUT")


def test_uploads_of_what_is_no_file_send_nothing(client, trap, tmp_path):
    for call in (
        lambda s: s.upload(tmp_path, "f"), lambda s: s.upload(tmp_path / "none", "f"), lambda s: s.upload("/dev/null", "f"),
        lambda s: s.upload_folder(tmp_path / "none"), lambda s: s.upload_archive(tmp_path),
    ):  # fmt: skip
        with pytest.raises(OSError):
            call(handle(client))
    with pytest.raises(TypeError):
        handle(client).upload(io.StringIO("text"), "f")
    assert not trap.requests("PUT")


def test_folder_is_packed_without_owners_devices_and_sockets(client, trap, tmp_path):
    import socket

    source = tmp_path / "s"
    (source / "d").mkdir(parents=True)
    (source / "d/f").write_bytes(b"x" * 513)
    os.link(source / "d/f", source / "e")
    (source / "l").symlink_to("d/f")
    (source / "out").symlink_to("/etc/passwd")
    (source / "d/up").symlink_to("../../x")
    os.mkfifo(source / "p")
    os.mknod(source / "dev", 0o20600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as s, contextlib.chdir(source):
        s.bind("sock")
    os.close(os.open(os.fsencode(source) + b"/\xff", os.O_CREAT | os.O_WRONLY))
    trap.on("PUT .*/files/archive", t.reply(200, {"path": "/workspace", "archive_bytes": 1}))
    assert handle(client).upload_folder(source, "/workspace/x y") == ["d/up", "dev", "out", "p", "sock"]
    sent = trap.requests("PUT")[0]
    assert sent.path.endswith("?path=/workspace/x%20y")
    with tarfile.open(fileobj=io.BytesIO(sent.body), encoding="utf-8", errors="surrogateescape") as f:
        found = {m.name: (m.type, m.linkname) for m in f}
        assert all((m.uid, m.gid, m.uname, m.gname) == (0, 0, "", "") for m in f)
        assert f.extractfile("d/f").read() == b"x" * 513
    assert found == {
        "d": (DIR, ""), "d/f": (tarfile.REGTYPE, ""), "e": (LNK, "d/f"), "l": (SYM, "d/f"), "\udcff": (tarfile.REGTYPE, "")
    }  # fmt: skip


# Configuration.


def test_key_comes_from_argument_variable_named_file_and_usual_file_in_this_order(trap, tmp_path, monkeypatch):
    for name in list(os.environ):
        if name not in clean_env():
            monkeypatch.delenv(name)
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": []}))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AGENT_SANDBOX_URL", trap.url)

    def key(**arguments):
        with sdk.SandboxClient(**arguments) as c:
            c.list_sandboxes()
        return trap.seen[-1].headers.get("authorization")

    def put(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o600)

    assert key() is None
    put(tmp_path / ".config/agent-sandbox/key", "usual-0123456789abcdef\n")
    assert key() == "Bearer usual-0123456789abcdef"
    put(tmp_path / "xdg/agent-sandbox/key", "xdg-0123456789abcdef")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert key() == "Bearer xdg-0123456789abcdef"
    put(tmp_path / "named", "named-0123456789abcdef\n")
    monkeypatch.setenv("AGENT_SANDBOX_API_KEY_FILE", str(tmp_path / "named"))
    assert key() == "Bearer named-0123456789abcdef"
    monkeypatch.setenv("AGENT_SANDBOX_API_KEY", "variable-0123456789")
    assert key() == "Bearer variable-0123456789"
    assert key(base_url=trap.url.replace("//", "//box:inurl-0123456789@")) == "Bearer inurl-0123456789"
    assert key(api_key="argument-0123456789") == "Bearer argument-0123456789"
    assert all("0123456789" not in s.path for s in trap.seen)


@pytest.mark.parametrize(
    "mode, text", [(0o640, "k" * 20), (0o604, "k" * 20), (0o600, ""), (0o600, "ü" * 20), (0o600, "k" * 5000), (0o600, None)]
)
def test_key_file_that_others_can_read_or_that_holds_no_key_is_refused(tmp_path, monkeypatch, mode, text):
    if text is None:
        os.mkfifo(tmp_path / "key")
    else:
        (tmp_path / "key").write_text(text)
    (tmp_path / "key").chmod(mode)
    monkeypatch.delenv("AGENT_SANDBOX_API_KEY", raising=False)
    monkeypatch.setenv("AGENT_SANDBOX_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(sdk.SandboxConfigError) as wrong:
        sdk.SandboxClient("http://127.0.0.1:1")
    assert str(tmp_path / "key") in wrong.value.message and "kkkk" not in wrong.value.message


def test_http_client_of_ones_own_keeps_its_address_and_its_own_headers(trap):
    trap.on("GET /base/v1/sandboxes$", t.reply(200, {"sandboxes": []}))
    with httpx.Client(base_url=trap.url + "/base", follow_redirects=True, headers={"X-Mine": "1"}) as h:
        with sdk.SandboxClient(api_key=KEY, http_client=h) as c:
            assert c.list_sandboxes() == []
        assert "authorization" not in h.headers
    assert trap.seen[-1].headers["x-mine"] == "1" and trap.seen[-1].headers["authorization"] == "Bearer " + KEY


def test_mocked_transport_of_httpx_serves_for_tests():
    def answer(request):
        return (
            httpx.Response(200, json={"sandboxes": [t.SANDBOX]})
            if request.url.path == "/v1/sandboxes"
            else httpx.Response(200, content=b"x")
        )

    with sdk.SandboxClient("http://x", KEY, http_client=httpx.Client(transport=httpx.MockTransport(answer))) as c:
        (box,) = c.list_sandboxes()
        assert box.id == t.SANDBOX_ID and box.read_file("f") == b"x"


def test_proxy_of_the_environment_is_used_but_never_for_this_machine(trap, monkeypatch):
    trap.on("GET http://box.example/", t.reply(502, "<html>proxy", "text/html"))
    trap.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": []}))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with sdk.SandboxClient(trap.url, KEY) as c:
        assert c.list_sandboxes() == []
    monkeypatch.setenv("http_proxy", trap.url)
    with sdk.SandboxClient("http://box.example", KEY) as c, pytest.raises(sdk.SandboxAnswerError) as wrong:
        c.list_sandboxes()
    assert wrong.value.status_code == 502 and "proxy" in wrong.value.message


@pytest.mark.bare
def test_certificate_of_ones_own_authority_is_trusted_when_named(tmp_path, monkeypatch):
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=box", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "crt"], check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    trap = t.Trap(tls=context).on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": []}))
    try:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "crt"))
        with sdk.SandboxClient(trap.url, KEY) as c:
            assert c.list_sandboxes() == []
        monkeypatch.delenv("SSL_CERT_FILE")
        trust = ssl.create_default_context(cafile=tmp_path / "crt")
        with sdk.SandboxClient(trap.url, KEY, http_client=httpx.Client(verify=trust)) as c:
            assert c.list_sandboxes() == []
        with sdk.SandboxClient(trap.url, KEY) as c, pytest.raises(sdk.SandboxUnreachableError) as no:
            c.list_sandboxes()
        assert no.value.code == "tls" and len(trap.seen) == 2
    finally:
        trap.close()


# Errors.


def test_errors_are_also_what_httpx_calls_them():
    pairs = {
        sdk.SandboxUnreachableError: (httpx.ConnectError, httpx.ConnectTimeout), sdk.SandboxTimeoutError: (httpx.ReadTimeout,),
        sdk.SandboxConnectionLostError: (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError), sdk.SandboxConfigError: (ValueError,),
        sdk.SandboxAnswerError: (httpx.RemoteProtocolError, ValueError), sdk.SandboxRedirectError: (sdk.SandboxAnswerError,),
    }  # fmt: skip
    for ours, theirs in pairs.items():
        assert issubclass(ours, sdk.SandboxAPIError) and all(issubclass(ours, x) for x in theirs)


# That of the older system's client is shown as there.
@pytest.mark.parametrize("name", [n for n in sdk.__all__ if n.endswith("Error") and n != "AgentboxError"])
def test_errors_can_be_made_shown_and_sent_to_another_process(name):
    error = getattr(sdk, name)(429, "limit_exceeded", "full", retry_after=2.0, request_id="r1")
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is type(error) and str(one) == "429 limit_exceeded: full"
        assert (one.status_code, one.code, one.message, one.retry_after, one.request_id) == (429, "limit_exceeded", "full", 2.0, "r1")
    plain = getattr(sdk, name)(404, "not_found", "gone")
    assert (plain.retry_after, plain.request_id) == (None, None)


@pytest.mark.parametrize(
    "text, seconds", [("3", 3), ("x", None), ("-1", None), ("", None), ("9" * 400, 86400), ("Mon, 01 Jan 2001 00:00:00 GMT", 0)]
)
def test_retry_after_in_any_shape_is_seconds_or_nothing(client, trap, text, seconds):
    trap.on("POST /v1/sandboxes$", t.refusal(429, "limit_exceeded", Retry_After=text, X_Request_Id="r7\u009b31m\u202e"))
    with pytest.raises(sdk.SandboxLimitError) as full:
        client.create()
    assert (full.value.retry_after, full.value.request_id) == (seconds, "r7\ufffd31m\ufffd")


def test_error_in_a_block_is_not_hidden_by_the_end_of_the_block(client, trap):
    trap.on("DELETE ", t.refusal(502, "backend_error"))
    with pytest.raises(ZeroDivisionError), handle(client):
        1 / 0  # noqa: B018
    with pytest.raises(sdk.SandboxAPIError), handle(client):
        pass


def test_destroy_whose_answer_is_lost_counts_when_it_was_done(client, trap):
    trap.on("DELETE ", t.nothing(), t.refusal(404, "not_found"))
    handle(client).destroy()
    trap.on("DELETE ", t.refusal(404, "not_found"))
    with pytest.raises(sdk.SandboxNotFoundError):
        handle(client).destroy()


def test_busy_server_is_waited_for_as_it_asks_and_not_longer_than_seconds(client, trap):
    trap.on("GET /v1/sandboxes$", t.refusal(503, "unavailable", Retry_After="1"), t.reply(200, {"sandboxes": []}))
    began = time.monotonic()
    assert client.list_sandboxes() == [] and time.monotonic() - began >= 1
    trap.on("GET /v1/sandboxes$", t.refusal(503, "unavailable", Retry_After="60"))
    with pytest.raises(sdk.SandboxAPIError) as busy:
        client.list_sandboxes()
    assert busy.value.retry_after == 60


def test_retries_end_and_can_be_turned_off(trap):
    trap.on("GET /v1/sandboxes$", t.nothing())
    for retries, requests in ((0, 1), (2, 3)):
        before = len(trap.seen)
        with sdk.SandboxClient(trap.url, KEY, retries=retries) as c, pytest.raises(sdk.SandboxConnectionLostError):
            c.list_sandboxes()
        assert len(trap.seen) - before == requests


def test_answer_without_end_is_not_taken_into_memory(client, trap, monkeypatch):
    from agent_sandbox_sdk import _wire

    monkeypatch.setattr(_wire, "MAX_ANSWER_BYTES", 1 << 20)
    sent = []

    def endless(conn, seen, ended):
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[")
        while not ended.is_set():
            sent.append(conn.send(b" " * 65536))

    trap.on("GET /v1/sandboxes$", endless)
    with pytest.raises(sdk.SandboxAnswerError):
        client.list_sandboxes()
    assert sum(sent) < 30 << 20


def test_command_may_be_silent_for_as_long_as_it_was_given(trap):
    def late(conn, seen, ended):
        time.sleep(4)
        conn.sendall(t.reply(200, t.RESULT))

    trap.on("POST .*/exec$", late)
    with sdk.SandboxClient(trap.url, KEY, timeout=1) as c:
        assert handle(c).exec("x", timeout_seconds=20).exit_code == 0
        with pytest.raises(sdk.SandboxTimeoutError):
            handle(c).exec("x")


# asyncio.


def test_cancelled_download_leaves_nothing_when_it_has_ended(trap, tmp_path):
    def slow(conn, seen, ended):
        conn.sendall(t.reply(200, b"x" * 100000, "application/octet-stream", length=10**7))
        ended.wait(30)

    trap.on("GET .*/files", slow)

    async def scene():
        async with sdk.AsyncSandboxClient(trap.url, KEY) as c:
            for call in (lambda s: s.download("f", tmp_path / "f"), lambda s: s.download_archive("f", tmp_path / "f")):
                begun = asyncio.Event()
                task = asyncio.ensure_future(call(handle(c)))
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(begun.wait(), 0.3)
                task.cancel()
                with pytest.raises((asyncio.CancelledError, sdk.SandboxAnswerError)):
                    await task
                assert listing(tmp_path) == []

    asyncio.run(scene())


def test_cancelled_task_ends_its_command(server, box):
    async def scene():
        async with sdk.AsyncSandboxClient(server.url, KEY) as c:
            s = await c.get(box.id)
            task = asyncio.ensure_future(s.exec(["sleep", "77.25"]))
            await asyncio.to_thread(wait_until, lambda: box.running("77.25"), 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scene())
    assert wait_until(lambda: not box.running("77.25"))


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_stream_that_is_left_ends_its_command_and_keeps_no_connection(server, box, kind):
    def blocking():
        with sdk.SandboxClient(server.url, KEY) as c:
            with c.get(box.id).exec_stream("echo on; exec sleep 77.5") as events:
                assert next(events).data == "on\n"
            assert wait_until(lambda: not box.running("77.5"))
            for event in c.get(box.id).exec_stream("echo on; exec sleep 77.75"):
                assert event.data == "on\n"
                break
            gc.collect()
            assert wait_until(lambda: not box.running("77.75"))

    async def scene():
        async with sdk.AsyncSandboxClient(server.url, KEY) as c:
            s = await c.get(box.id)
            async with s.exec_stream("echo on; exec sleep 77.5") as events:
                async for event in events:
                    assert event.data == "on\n"
                    break
            assert await asyncio.to_thread(wait_until, lambda: not box.running("77.5"), 10)

    blocking() if kind == "sync" else asyncio.run(scene())


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_stream_that_is_read_can_be_closed_by_somebody_else(server, box, kind):
    command = "echo on; exec sleep 78.5"

    def blocking():
        with sdk.SandboxClient(server.url, KEY) as c:
            events = c.get(box.id).exec_stream(command)
            assert next(events).data == "on\n"
            with ThreadPoolExecutor(1) as pool:
                rest = pool.submit(list, events)
                time.sleep(0.3)
                events.close()
                assert rest.result(30) == []
            events.close()

    async def scene():
        async with sdk.AsyncSandboxClient(server.url, KEY) as c:
            events = (await c.get(box.id)).exec_stream(command)
            assert (await events.__anext__()).data == "on\n"

            async def read():
                return [event async for event in events]

            rest = asyncio.create_task(read())
            await asyncio.sleep(0.3)
            await events.close()
            assert await asyncio.wait_for(rest, 30) == []
            await events.close()

    blocking() if kind == "sync" else asyncio.run(scene())
    assert wait_until(lambda: not box.running("78.5"))


def test_async_uploads_and_folders_go_round(server, box, tmp_path):
    (tmp_path / "s/d").mkdir(parents=True)
    (tmp_path / "s/d/f").write_bytes(os.urandom(2 << 20))
    steps = []

    async def scene():
        async with sdk.AsyncSandboxClient(server.url, KEY) as c:
            s = await c.get(box.id)
            loop = threading.get_ident()
            await s.upload_folder(tmp_path / "s", "/workspace/x", progress=lambda d, n: steps.append((threading.get_ident() == loop, d, n)))
            assert await s.download_folder("x", tmp_path / "back") == []
            assert (await s.upload(tmp_path / "s/d/f", "g")).size == 2 << 20
            assert (
                await s.download("g", tmp_path / "g", progress=lambda d, n: steps.append((threading.get_ident() == loop, d, n))) == 2 << 20
            )
            with pytest.raises(FileExistsError):
                await s.download("g", tmp_path / "g")

    asyncio.run(scene())
    data = (tmp_path / "s/d/f").read_bytes()
    assert (tmp_path / "back/d/f").read_bytes() == data == (tmp_path / "g").read_bytes()
    assert all(on_loop for on_loop, _, _ in steps) and steps[-1][1:] == (2 << 20, 2 << 20)


def test_threads_can_share_a_client(server, box):
    with sdk.SandboxClient(server.url, KEY) as c:
        s, results = c.get(box.id), []

        def work(n):
            for _ in range(5):
                results.append((n, s.exec(["echo", str(n)]).stdout))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        [x.start() for x in threads]
        [x.join() for x in threads]
        assert len(results) == 80 and all(out == f"{n}\n" for n, out in results)


def program(text, server, **more):
    env = clean_env(PYTHONPATH=str(ROOT / "clients/python/src"), AGENT_SANDBOX_URL=server.url, AGENT_SANDBOX_API_KEY=KEY, **more)
    head = "import sys, resource\nfrom agent_sandbox_sdk import *\nclient = SandboxClient()\nbox = client.get(sys.argv[1])\n"
    return env, [sys.executable, "-c", head + textwrap.dedent(text)]


def test_ctrl_c_ends_the_command_and_leaves_no_part_of_a_download(server, box, trap, tmp_path):
    env, words = program("print('go', flush=True)\nbox.exec(['sleep', '66.25'])", server)
    with subprocess.Popen([*words, box.id], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        assert wait_until(lambda: box.running("66.25"))
        p.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in p.communicate(timeout=60)[1]
    assert wait_until(lambda: not box.running("66.25"))

    def slow(conn, seen, ended):
        conn.sendall(t.reply(200, b"x" * 100000, "application/octet-stream", length=10**7))
        ended.wait(30)

    trap.on("GET .*/files", slow)
    env, words = program("box.download('f', sys.argv[2])", trap)
    with subprocess.Popen([*words, t.SANDBOX_ID, tmp_path / "f"], env=env, stderr=subprocess.PIPE, text=True) as p:
        assert wait_until(lambda: any(os.path.getsize(x) for x in tmp_path.iterdir()))
        p.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in p.communicate(timeout=60)[1]
    assert listing(tmp_path) == []


@pytest.mark.limit(180)
def test_memory_stays_flat_whatever_the_size(own, tmp_path):
    size = 150 << 20
    server = own(MAX_FILE_BYTES=size, MAX_SNAPSHOT_BYTES=2 * size)
    box = server.api.create(timeout_seconds=900)
    box.sh(f"head -c {size} /dev/zero | tr '\\0' x > big; mkdir d; ln big d/big")
    text = f"""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert box.download("big", sys.argv[2] + "/big") == {size}
        box.upload(sys.argv[2] + "/big", "again")
        box.download_folder("d", sys.argv[2] + "/d")
        box.upload_folder(sys.argv[2] + "/d", "e")
        assert sum(len(e.data) for e in box.exec_stream("cat big")) == {size}
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    env, words = program(text, server)
    done = subprocess.run([*words, box.id, tmp_path], env=env, capture_output=True, text=True, timeout=170)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 30 << 10, f"{done.stdout} KiB more"
    assert box.sh("cmp big again && cmp big e/big && echo same") == "same\n"
