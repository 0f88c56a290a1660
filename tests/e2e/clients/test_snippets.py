"""Every fenced snippet of the manual, run as it is written, by a reader who has just done `make run`."""

import signal

import pytest
from harness import ROOT, Server
from llm import ScriptedModel
from snippets import parse, pattern, wrong
from stage import Stage

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


@pytest.fixture(scope="module")
def host(engine):
    """The server that make run would have started."""
    s = Server(engine).start()
    yield s
    s.close()


@pytest.fixture(scope="module")
def stage(host, model):
    s = Stage(host.port, model.port)
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
