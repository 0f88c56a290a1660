"""GET /docs and GET /console in a real Chromium: each scenario of tests/node/pages*.mjs is a test, and what is in the sources."""

import contextlib
import json
import os
import re
import signal
import subprocess

import pytest
from harness import KEY, ROOT, Server

NODE = ROOT / "build/venv/bin/node"
SHOTS = ROOT / "build/screenshots"
PAGES = ROOT / "pages"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def server(engine):
    """A server for these tests alone: the console shows all that there is, and a story begins with nothing."""
    s = Server(engine, MAX_SANDBOXES=40).start()
    yield s
    s.close()


def start(server, file, scenario, **more):
    env = os.environ | {"AGENT_SANDBOX_URL": server.url, "AGENT_SANDBOX_API_KEY": KEY, "PAGES_SHOTS": str(SHOTS)}
    return subprocess.Popen([NODE, file, scenario], cwd=ROOT / "tests/node", env=env, text=True, start_new_session=True, **more)


def end(process):
    """Node is a child of the process that was started; told to end, it ends its browser."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def finish(process, seconds):
    """Its output, when it has succeeded; never leaves it, or its browser, behind."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, f"{process.args}:\n{(out or '')[-3000:]}\n{(err or '')[-6000:]}"
    return out


@pytest.fixture
def browse(server):
    """browse(file, scenario): runs it to its end against the server; what it made is deleted."""
    api = server.api
    before = set(api.ids()), set(api.snapshot_ids())
    yield lambda file, scenario: finish(start(server, file, scenario, stdout=subprocess.PIPE, stderr=subprocess.PIPE), 220)
    for s in set(api.ids()) - before[0]:
        api.ask("DELETE", f"/v1/sandboxes/{s}")
    for s in set(api.snapshot_ids()) - before[1]:
        api.ask("DELETE", f"/v1/snapshots/{s}")


@pytest.mark.limit(240)
def test_the_whole_story_from_the_key_to_the_end(browse):
    browse("pages.mjs", "story")


@pytest.mark.limit(240)
def test_way_out_is_chosen_and_told_and_a_program_is_run(browse):
    browse("pages.mjs", "out")


@pytest.mark.limit(240)
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("names", id="hostile_names_are_text"),
        pytest.param("output", id="hostile_output_is_text"),
        pytest.param("huge", id="huge_output_does_not_grow_the_page"),
        pytest.param("many", id="many_sandboxes_do_not_grow_the_page"),
        pytest.param("refusals", id="what_the_server_refuses_is_said_in_its_words"),
    ],
)
def test_hostile_or_unlucky(browse, scenario):
    browse("pages_hostile.mjs", scenario)


@pytest.mark.limit(240)
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("light", id="every_view_is_accessible_in_light"),
        pytest.param("dark", id="every_view_is_accessible_in_dark"),
        pytest.param("phone", id="every_view_fits_a_phone"),
        pytest.param("tablet", id="every_view_fits_a_tablet"),
        pytest.param("colours", id="colours_and_motion_follow_the_system_and_the_toggle"),
        pytest.param("keyboard", id="all_of_it_works_by_keyboard"),
        pytest.param("spoken", id="a_screen_reader_is_told"),
    ],
)
def test_for_everybody(browse, scenario):
    browse("pages_access.mjs", scenario)


@pytest.mark.limit(240)
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param("complete", id="all_of_the_description_is_shown"),
        pytest.param("forms", id="every_kind_of_request_can_be_tried"),
    ],
)
def test_reference(browse, scenario):
    browse("pages_reference.mjs", scenario)


@pytest.mark.limit(120)
def test_the_curl_lines_work_in_a_shell(browse, server, tmp_path):
    """Those of the reference, as they are copied, with the key and ids in the variables that they name."""
    lines = json.loads(browse("pages_reference.mjs", "curl"))
    box, other = server.api.create(), server.api.create()
    snap = box.snapshot()
    (tmp_path / "FILE").write_bytes(b"\0" * 10240)
    env = os.environ | {"KEY": KEY, "SANDBOX": box.id, "SNAPSHOT": snap}
    wanted = {
        "readFile": 404,
        "createSandbox": 201,
        "getMetrics": 403,
        "createSnapshot": 201,
        "forkSnapshot": 201,
        "deleteSnapshot": 204,
        "deleteSandbox": 204,
    }
    order = {"writeArchive": 0, "forkSnapshot": 2, "deleteSnapshot": 3, "deleteSandbox": 4}
    assert len(lines) > 20
    try:
        for name in sorted(lines, key=lambda n: order.get(n, 1)):
            if name in ("rollbackSandbox", "getAsset"):
                continue  # their examples name what is not here
            line = lines[name].replace("curl ", "curl --max-time 30 -o out -w '%{http_code}' ", 1)
            done = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
            assert int(done.stdout or 0) == wanted.get(name, 200), (
                f"{line}: {done.stdout} {done.stderr} {(tmp_path / 'out').read_text()[:300]}"
            )
    finally:
        other.delete()
        server.api.clear()


@pytest.mark.gate
@pytest.mark.limit(240)
def test_a_server_that_goes_away_and_comes_back(own):
    server = own()
    page = start(server, "pages_hostile.mjs", "outage", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for step in (server.end, server.start):
            if page.stdout.readline() == "":
                break
            step()
            page.stdin.write("done\n")
            page.stdin.flush()
        finish(page, 120)
    finally:
        end(page)
        if server.process:
            server.api.delete_all()


def test_the_pure_parts(engine):
    done = subprocess.run([NODE, "--test", "pages_units.mjs"], cwd=ROOT / "tests/node", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.parametrize("path", ["/docs", "/console", "/assets/main.js", "/assets/base.css", "/assets/icon.svg"])
def test_the_policy_of_the_pages_has_nothing_unsafe(api, path):
    answer = api.ask("GET", path, key="")
    assert answer.status_code == 200
    policy = answer.headers["Content-Security-Policy"]
    assert policy == CSP if not path.startswith("/assets") else policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    again = api.ask("GET", path, key="", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304 and again.content == b""


def test_what_the_pages_load_is_there(api):
    for page in ("docs", "console"):
        html = api.ask("GET", f"/{page}", key="").text
        assert not re.search(r"<style|<script(?![^>]*src=)|\son\w+=|\sstyle=", html)
        for name in re.findall(r'(?:src|href)="(assets/[^"]+)"', html):
            assert api.ask("GET", f"/{name}", key="").status_code == 200, name
        # Named in advance, or each would wait for the one that imports it.
        modules = set(re.findall(r'(?:src|href)="assets/([^"]+\.js)"', html))
        assert modules == {f.name for f in PAGES.glob("*.js")}, f"{page}.html"
    for script in PAGES.glob("*.js"):
        for name in re.findall(r'from "\./([^"]+)"', script.read_text()):
            assert (PAGES / name).is_file(), f"{script.name} imports {name}"


WAYS_TO_MARKUP = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|setHTML|srcdoc"
WAYS_TO_CODE = r"\beval\(|new Function|setTimeout\(\s*[\"'`]|import\(\s*[^\"')]|javascript:"
WAYS_TO_KEEP = r"localStorage|sessionStorage|indexedDB|document\.cookie|caches\.|serviceWorker|window\.name|sendBeacon"
WAYS_OUT = r"[\"'`]https?://|[\"'`]//|WebSocket|EventSource|postMessage|BroadcastChannel"
SVG = '"http://www.w3.org/2000/svg"'  # a name, not an address
INLINE_STYLE = r"setAttribute\(\s*[\"'`]style|cssText|\bstyle:\s*[\"'`]|@import|\burl\([\"']?\w+:"


def test_the_sources_know_no_way_to_markup_code_storage_or_elsewhere():
    for file in sorted(PAGES.iterdir()):
        text = file.read_text()
        for pattern in (WAYS_TO_MARKUP, WAYS_TO_CODE, WAYS_TO_KEEP, WAYS_OUT, INLINE_STYLE):
            found = re.search(pattern, text.replace(SVG, ""))
            assert not found, f"{file.name}: {found[0]}"
        if file.suffix in (".js", ".css"):
            assert text.startswith(("//", "/*")), f"{file.name} does not begin with what it is for"
            assert text.count("\n") <= 500, f"{file.name} is too long"
