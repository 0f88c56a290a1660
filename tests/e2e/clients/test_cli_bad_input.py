"""The command when all is not well: one clear line, the right status, and nothing done by halves."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading

import pytest
import trap as t
from cli_kit import COMMAND, Cli, one_line, peak_memory
from drivers import listing
from harness import KEY, Server
from machine import free_port, wait_until

BOX, SNAP = t.SANDBOX_ID, t.SNAPSHOT_ID
# One of each verb that asks the server, with the status of its failures of the connection.
VERBS = [
    ["create"], ["ls"], ["show", BOX], ["show", SNAP], ["timeout", BOX, "60"], ["rm", BOX], ["rm", SNAP], ["snapshot", BOX], ["snapshots"],
    ["rollback", BOX, SNAP], ["fork", SNAP], ["files", BOX], ["cat", f"{BOX}:f"], ["put", f"{BOX}:f"], ["cp", f"{BOX}:f", "new"],
    ["cp", "/etc/hostname", f"{BOX}:f"], ["exec", BOX, "true"], ["exec", "--json", BOX, "true"], ["exec", "--events", BOX, "true"],
]  # fmt: skip
every_verb = pytest.mark.parametrize("words", VERBS, ids=" ".join)


def own(status, words):
    """The status that this verb gives to what another gives this one."""
    return 125 if words[0] == "exec" else status


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder that is empty before and must be after."""
    monkeypatch.chdir(tmp_path)
    yield
    assert listing(tmp_path) == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", folder / "key",
         "-addext", "subjectAltName=IP:127.0.0.1", "-out", folder / "cert"], check=True, capture_output=True,
    )  # fmt: skip
    return folder


@pytest.fixture
def secure(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert", certificate / "key")
    one = t.Trap(tls=context)
    yield one
    one.close()


@every_verb
def test_server_that_is_down(words, here):
    said = Cli(f"http://127.0.0.1:{free_port()}").fails(own(5, words), *words)
    assert "agent-sandbox serve" in said and "AGENT_SANDBOX_URL" in said


def test_host_that_does_not_exist(here):
    assert "AGENT_SANDBOX_URL" in Cli("http://no-such-host.invalid").fails(5, "ls")


@every_verb
def test_wrong_key(server, words, here):
    said = Cli(server.url, key="wrong-key-0123456789").fails(own(4, words), *words)
    assert "AGENT_SANDBOX_API_KEY" in said and "wrong-key" not in said


def test_key_that_may_not(trap):
    trap.on("POST /v1/sandboxes$", t.refusal(403, "forbidden", "image x is not allowed here"))
    assert Cli(trap.url).fails(4, "create", "x") == "image x is not allowed here"


@every_verb
def test_429_tells_when_to_try_again_and_is_not_tried_again(trap, words, here):
    trap.on(".*", t.refusal(429, "limit_exceeded", "too many sandboxes", Retry_After="17"))
    said = Cli(trap.url).fails(own(1, words), *words)
    assert said == "too many sandboxes (try again in 17 s)" and len(trap.seen) == 1


@pytest.mark.parametrize("value", ["soon", "-5", "99999999999999999999", "", "1\t2"])
def test_retry_after_that_is_nonsense_is_left_out_or_bounded(trap, value):
    trap.on(".*", t.refusal(429, "limit_exceeded", "too many", Retry_After=value))
    said = Cli(trap.url).fails(1, "ls")
    assert said.startswith("too many") and len(said) < 60


@every_verb
def test_connection_that_ends_without_an_answer(trap, words, here):
    trap.on(".*", t.nothing())
    said = Cli(trap.url).fails(own(5, words), *words)
    assert "broke" in said and len(trap.seen) == 1


@pytest.mark.parametrize("how", ["end", "reset"])
def test_stream_that_is_cut(trap, how):
    lines = t.stream(t.out("Ym90aA=="), whole=False)
    trap.on("POST .*/exec/stream", lines if how == "end" else t.reset(lines))
    p = Cli(trap.url)("exec", BOX, "true")
    assert p.returncode == 125 and p.stdout == "both" and "broke" in one_line(p.stderr)


def test_stream_that_is_whole_but_tells_no_end(trap):
    trap.on("POST .*/exec/stream", t.stream(t.out("Ym90aA==")))
    p = Cli(trap.url)("exec", BOX, "true")
    assert p.returncode == 125 and p.stdout == "both" and "how it ended is not known" in one_line(p.stderr)


def test_stream_whose_last_line_is_cut(trap):
    trap.on("POST .*/exec/stream", t.stream(t.out("YQ=="), b'{"type":"exit","exit_co'))
    p = Cli(trap.url)("exec", BOX, "true")
    assert p.returncode == 125 and p.stdout == "a" and one_line(p.stderr)


def test_stream_that_is_told_to_be_cut(trap):
    trap.on("POST .*/exec/stream", t.stream(t.out("YQ=="), {"type": "error", "data": "the sandbox was deleted"}))
    p = Cli(trap.url)("exec", BOX, "true")
    assert p.returncode == 125 and one_line(p.stderr) == "the sandbox was deleted"


@pytest.mark.parametrize(
    "line",
    [b"{}\n", b'{"type":5}\n', b'{"type":"stdout","data":5}\n', b'{"type":"stdout","data":"!!!"}\n', b'{"type":"exit"}\n',
     b'{"type":"exit","exit_code":"0","timed_out":false}\n', b"null\n", b'{"type":"stdout","data":"YQ=="\n', b"\xff\xff\n",
     b"x" * (20 << 20), b'{"type":"stdout","data":"\\"}\n', b'{"type":"stdout","data":""}"}\n'],
    ids=range(12),
)  # fmt: skip
def test_stream_of_something_else(trap, line):
    trap.on("POST .*/exec/stream", t.stream(t.out("YQ=="), line))
    p = Cli(trap.url)("exec", BOX, "true")
    assert p.returncode == 125 and p.stdout == "a" and one_line(p.stderr)


def test_exit_code_of_a_strange_server_is_never_zero_by_mistake(trap):
    for code in (256, -256, 1 << 40, 0.0, None, "0"):
        trap.on("POST .*/exec/stream", t.stream({"type": "exit", "exit_code": code, "timed_out": False}))
        assert Cli(trap.url).fails(125, "exec", BOX, "true")


@every_verb
@pytest.mark.parametrize(
    "answer",
    [t.reply(200, "<html>a page</html>", "text/html"), t.reply(200, "<html>"), t.reply(200, "[]"), t.reply(200, {"x": 1}),
     t.reply(502, "<html>bad gateway</html>", "text/html"), b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"],
    ids=["page", "no JSON", "array", "object", "gateway", "ssh", "no type"],
)  # fmt: skip
def test_answer_of_something_else(trap, words, answer, here):
    trap.on(".*", answer)
    if words[0] == "rm":
        trap.on("DELETE", answer if answer.startswith(b"HTTP/1.1 502") else t.reply(200, "<html>", "text/html"))
    assert Cli(trap.url).fails(own(5, words), *words)


@every_verb
def test_redirect_is_told_and_not_followed(trap, words, here):
    other = t.Trap()
    trap.on(".*", t.reply(307, "", Location=other.url + "/v1/sandboxes"))
    said = Cli(trap.url).fails(own(5, words), *words)
    assert other.url in said and "AGENT_SANDBOX_URL" in said and other.seen == []
    other.close()


@pytest.mark.parametrize("status", [302, 400, 429, 502])
@pytest.mark.parametrize("body", ["", "no", '{"error":{"code":"c","message":"m"}}'], ids=["empty", "text", "error"])
def test_refusal_ends_exec_though_its_input_is_open(trap, status, body):
    trap.early = True
    trap.on("POST .*/exec", lambda client, seen, ended: (client.sendall(t.reply(status, body, Location="http://x/")), ended.wait(30)))
    with Cli(trap.url).start("exec", BOX, "cat", stdin=subprocess.PIPE) as p:
        assert p.wait(30) == 125 and one_line(p.stderr.read().decode())
        p.stdin.close()


def test_certificate_that_is_not_trusted_gets_no_key(secure):
    said = Cli(secure.url).fails(5, "ls")
    assert "certificate" in said and "nothing was sent" in said and secure.seen == []


@pytest.mark.bare
def test_certificate_of_ones_own_is_trusted_when_told(secure, certificate):
    secure.on("GET /v1/sandboxes$", t.reply(200, {"sandboxes": [t.SANDBOX]}))
    assert BOX in Cli(secure.url, SSL_CERT_FILE=str(certificate / "cert")).ok("ls")
    assert "certificate" in Cli(secure.url.replace("127.0.0.1", "localhost"), SSL_CERT_FILE=str(certificate / "cert")).fails(5, "ls")
    assert Cli(secure.url, SSL_CERT_FILE="/nonexistent").fails(5, "ls")


def test_https_asked_of_http_and_the_other_way(trap, secure):
    assert "TLS" in Cli(trap.url.replace("http:", "https:")).fails(5, "ls")
    Cli(secure.url.replace("https:", "http:")).fails(5, "ls")
    assert trap.seen == [] and secure.seen == []


def test_server_on_this_machine_is_never_asked_through_a_proxy(server):
    proxy = t.Trap()
    env = {name: proxy.url for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY")}
    Cli(server.url, **env).ok("ls")
    Cli(server.url.replace("127.0.0.1", "localhost"), **env).ok("ls")
    assert proxy.seen == []
    proxy.close()


@pytest.mark.parametrize(
    "answer, words",
    [(t.reply(502, "<html>no</html>", "text/html"), "proxies"), (t.reply(407, "", Proxy_Authenticate="Basic"), "proxies"),
     (t.reply(200, "<html>log in</html>", "text/html"), "proxies"), (t.reply(302, "", Location="http://portal/"), "portal"), (b"", "broke")],
    ids=["502", "407", "page", "portal", "nothing"],
)  # fmt: skip
def test_page_of_a_proxy_is_told_as_that(answer, words):
    proxy = t.Trap()
    proxy.on(".*", answer)
    assert words in Cli("http://box.invalid:8080", http_proxy=proxy.url).fails(5, "ls")
    proxy.close()


def test_key_is_never_told_to_the_proxy_of_a_tls_server():
    proxy = t.Trap()
    proxy.on(".*", t.reply(403, "no"))
    assert Cli("https://box.invalid", https_proxy=proxy.url).fails(5, "ls")
    assert [s.method for s in proxy.seen] == ["CONNECT"]
    assert KEY not in json.dumps([[s.path, s.headers] for s in proxy.seen])
    proxy.close()


def test_proxy_that_is_down():
    assert "proxy" in Cli("http://box.invalid", http_proxy="http://no-such-proxy.invalid:1").fails(5, "ls")


def test_bytes_of_a_sandbox_that_are_no_text(server, box):
    cli = Cli(server.url)
    assert cli("exec", box.id, r"printf '\377\376a\000b'", text=False).stdout == b"\xff\xfea\0b"
    assert json.loads(cli.ok("exec", "--json", box.id, r"printf 'a\377b\000c'"))["stdout"] == "a\ufffdb\0c"
    box.python("import os; os.mkdir(b'\\xff\\xfe'); open(b'\\xff\\xfe/f', 'w').write('x')")
    assert "\ufffd" in cli.ok("files", box.id) and json.loads(cli.ok("files", "--json", box.id))


def test_name_that_is_no_text_is_copied_as_it_is(server, box, tmp_path):
    box.python("import os; os.mkdir('d'); open(b'd/\\xff\\xfe', 'w').write('x')")
    cli = Cli(server.url)
    cli.ok("cp", f"{box.id}:d", tmp_path / "d")
    assert os.listdir(os.fsencode(tmp_path / "d")) == [b"\xff\xfe"]
    cli.ok("cp", tmp_path / "d", f"{box.id}:e")
    assert box.python("import os; print(os.listdir(b'e'))") == "[b'\\xff\\xfe']\n"


def test_words_that_are_no_text_are_refused_before_anything_is_sent(trap):
    cli = Cli(trap.url)
    for words in (["exec", BOX, b"\xff"], ["exec", "-e", b"A=\xff", BOX, "true"], ["create", b"\xff"], ["snapshot", BOX, b"\xff"]):
        words = [COMMAND, *map(os.fsencode, words)]
        p = subprocess.run(words, env=cli.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        assert p.returncode in (2, 125) and b"UTF-8" in p.stderr and b"\xff" not in p.stderr
    assert trap.seen == []


def test_header_is_not_made_longer_by_what_was_typed(trap):
    trap.on("POST /v1/sandboxes", t.reply(201, t.SANDBOX))
    p = Cli(trap.url)("create", "--idempotency-key", "a\r\nX-Evil: 1")
    assert p.returncode == 2 and trap.seen == []


def test_path_is_one_parameter_whatever_is_in_it(trap):
    trap.on("GET .*/files", t.reply(200, b"x", "application/octet-stream"))
    Cli(trap.url).ok("cat", f"{BOX}:a&b=c#d?e f%2e/../é+")
    assert trap.seen[-1].path == f"/v1/sandboxes/{BOX}/files?path=a%26b%3Dc%23d%3Fe%20f%252e%2F..%2F%C3%A9%2B"


def test_answer_without_end_is_bounded(trap):
    def endless(client, seen, ended):
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
        for _ in range(100):
            client.sendall(b" " * (1 << 20))

    trap.on("GET /v1/sandboxes$", endless)
    assert "more than" in Cli(trap.url).fails(5, "ls")


def test_refusal_without_end_is_not_kept(trap):
    def endless(client, seen, ended):
        client.sendall(b"HTTP/1.1 400 No\r\nContent-Type: application/json\r\n\r\n[")
        for _ in range(100):
            client.sendall(b" " * (1 << 20))

    trap.on("GET /v1/sandboxes$", endless)
    p = Cli(trap.url).start("ls")
    assert peak_memory(p) < 90_000
    assert p.wait(30) == 5 and b"not this API" in p.stderr.read()
    p.stdout.close(), p.stderr.close()


def test_file_over_the_limit_tells_it(own_limits, here):
    server, box = own_limits
    cli = Cli(server.url)
    assert "MAX_FILE_BYTES" in cli.fails(1, "put", f"{box.id}:f", input="x" * 3_000_000)
    assert wait_until(lambda: box.names() == [])
    box.sh("head -c 3000000 /dev/zero > g")
    assert "too large" in cli.fails(1, "cat", f"{box.id}:g")


@pytest.fixture
def own_limits(engine):
    server = Server(engine, MAX_FILE_BYTES=1_000_000).start()
    yield server, server.api.create()
    server.close()


def test_upload_that_is_refused_early_tells_why(trap):
    trap.early = True
    trap.on("PUT .*/files", t.refusal(413, "payload_too_large", "the file is too large"))
    assert Cli(trap.url).fails(1, "put", f"{BOX}:f", input="x" * 20_000_000) == "the file is too large"


def test_server_that_never_answers_is_left_by_ctrl_c():
    with socket.create_server(("127.0.0.1", 0)) as s:
        taken = []
        threading.Thread(target=lambda: taken.append(s.accept()), daemon=True).start()
        for words in (["ls"], ["exec", BOX, "true"]):
            with Cli(f"http://127.0.0.1:{s.getsockname()[1]}").start(*words) as p:
                with pytest.raises(subprocess.TimeoutExpired):
                    p.wait(0.5)
                p.send_signal(signal.SIGINT)
                assert p.wait(30) in (130, -signal.SIGINT)
