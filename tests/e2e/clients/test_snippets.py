"""Every fenced snippet of the manual, run as it is written, by a reader who has just done `make run`."""

import io
import signal
import socket
import zipfile

import pytest
from egress_scene import HOST4, NetServer, Web, World, within
from harness import ROOT
from llm import ScriptedModel
from snippets import parse, pattern, wrong
from stage import Stage

pytestmark = pytest.mark.bare

PAGES = [
    "README.md", "docs/QUICKSTART.md", "docs/COOKBOOK.md", "docs/MIGRATING.md", "clients/python/README.md", "clients/typescript/README.md",
]  # fmt: skip
SECTIONS = [s for page in PAGES if (ROOT / page).exists() for s in parse(page)]
LASTING = [x for s in SECTIONS for x in s.snippets if x.kind == "until"]
USUAL = [s for s in SECTIONS if any(x.kind not in ("until", "tested by") and (x.kind or x.language) for x in s.snippets)]


@pytest.fixture(scope="module")
def model():
    m = ScriptedModel()
    yield m
    m.close()


def wheel():
    """A package as small as they come."""
    info = "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"
    files = {"greeting.py": "HELLO = 'hello'\n", "greeting-1.0.dist-info/METADATA": info}
    files["greeting-1.0.dist-info/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files["greeting-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in files) + "greeting-1.0.dist-info/RECORD,,\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


class Index(Web):
    """packages.example.com of the recipes, with that package."""

    def do_GET(self):
        name = "greeting-1.0-py3-none-any.whl"
        page = self.path == "/simple/greeting/"
        body = f'<!doctype html><a href="/{name}">{name}</a>'.encode() if page else wheel()
        self.send_response(200 if page or self.path == f"/{name}" else 404)
        self.send_header("Content-Type", "text/html" if page else "application/zip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def world():
    """The hosts that a recipe names are there, and no others."""
    w = World(lambda sock: Index(sock, ("", 0), None))
    w.dns.names["packages.example.com"] = w.dns.names["elsewhere.example.com"] = [HOST4]
    yield w
    w.close()


@pytest.fixture(scope="module")
def host(engine, world):
    """The server that make run would have started."""
    s = NetServer(engine, world).start()
    yield s
    s.close()


@pytest.fixture(scope="module")
def stage(host, model):
    def server():
        sock = within(host.world.net.egress, socket.socket)
        sock.connect(("127.0.0.1", host.port))
        return sock

    s = Stage(server, lambda: socket.create_connection(("127.0.0.1", model.port)))
    yield s
    s.close()


@pytest.mark.parametrize("page", PAGES)
def test_every_snippet_is_one_that_something_runs(page):
    assert (ROOT / page).exists()
    assert [complaint for s in parse(page) for complaint in wrong(s)] == []


@pytest.mark.limit(300)
@pytest.mark.parametrize("section", USUAL, ids=str)
def test_snippets_work_as_written(section, stage, host, model):
    model.forget()
    try:
        stage.run(section)
        model.check()
    finally:
        host.api.delete_all()


@pytest.mark.limit(120)
@pytest.mark.parametrize("snippet", LASTING, ids=str)
def test_snippets_that_go_on_for_ever_serve_until_ctrl_c(snippet, engine):
    s = Stage(engine=engine)
    try:
        assert s.run_until(snippet) in (0, -signal.SIGINT)
    finally:
        s.close()


def test_output_fences_allow_other_ids_and_times_and_nothing_else():
    shown = 'sb_0123456789abcdef {"duration_ms": 3} 2026-09-30T09:56:02.053406Z\nsize ... (bytes)\n...\nend\n'
    said = 'sb_fedcba9876543210 {"duration_ms": 41} 2027-01-01T00:00:00.000000Z\nsize 5 (bytes)\nx\ny\nend\n'
    assert pattern(shown).fullmatch(said)
    assert not pattern(shown).fullmatch(said.replace("sb_fe", "sb_FE"))
    assert not pattern(shown).fullmatch(said.replace("(bytes)", "bytes"))
    assert not pattern(shown).fullmatch(said + "more\n")


def test_a_snippet_that_fails_or_prints_something_else_is_found(stage, tmp_path):
    page = tmp_path / "page.md"
    for text in ("```sh\nfalse\ntrue\n```\n", "```sh\necho a\n```\n<!-- output -->\n```text\nb\n```\n", "```python\n1 / 0\n```\n"):
        page.write_text(text)
        with pytest.raises(AssertionError, match="page.md:"):
            stage.run(parse("page.md", tmp_path)[0])
    page.write_text("```ruby\nputs 1\n```\n<!-- file a.py -->\n```python\n1\n```\n")
    assert len(wrong(parse("page.md", tmp_path)[0])) == 2
    page.write_text("```sh\necho a >f; x=$(cat f); echo $x\n```\n<!-- output -->\n```text\na\n```\n```sh\necho $x; rm f\n```\n")
    stage.run(parse("page.md", tmp_path)[0])
