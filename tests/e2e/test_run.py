"""One-shot runs: POST /v1/run and GET /health. What code gets, what it leaves, and that nothing is left of it."""

import json
import os
import re
import signal
import threading
import time

import pytest
import requests
from front import FRONT
from harness import CODES, KEY, PROGRAMS, at_once, check_error
from images import NODE_IMAGE, node, tiny
from machine import read, wait_until

FIELDS = {
    "stdout": str, "stderr": str, "exit_code": int, "duration_ms": int, "language": str, "backend": str, "snapshot_id": (str, type(None)),
    "limits_applied": dict, "oom_killed": bool, "network_isolated": bool, "egress_allowlist": list, "truncated": bool,
}  # fmt: skip


def post(server, code="print(1)", timeout=90, **body):
    return server.api.ask("POST", "/v1/run", json={"code": code} | body, timeout=timeout)


def run(server, code, **body):
    answer = post(server, code, **body)
    assert answer.status_code == 200, f"{answer.status_code} {answer.text[:500]}"
    result = answer.json()
    assert {k: type(v) for k, v in result.items() if not isinstance(v, FIELDS[k])} == {} and set(result) == set(FIELDS)
    if result["snapshot_id"]:
        server.api.snapshots.append(result["snapshot_id"])
    return result


def refused(answer, status):
    """An error in both shapes, which say the same; returns it."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:300]}"
    body = answer.json()
    assert set(body) == {"error", "detail"} and body["error"] == {"code": CODES[status], "message": body["detail"]}
    return body["detail"]


def nothing_left(server):
    """No run is on the engine, in the list, or in the data directory."""
    assert server.api.list() == [] and not [f for f in (server.data / "sandboxes").iterdir() if f.suffix == ".json"]
    assert wait_until(lambda: server.on_engine() == ([], []), 60, 0.2), f"{server.on_engine()}\n{server.tail()}"


@pytest.fixture
def alone(own):
    """A private server whose engine holds nothing else of it."""
    s = own(MAX_SANDBOXES=10)
    yield s
    nothing_left(s)


# ---- what comes back


def test_result_has_every_field_and_limits_are_the_defaults(server):
    result = run(server, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert (result["stdout"], result["stderr"], result["exit_code"]) == ("out\n", "err\n", 3)
    assert (result["language"], result["backend"], result["snapshot_id"]) == ("python", "docker", None)
    assert result["limits_applied"] == {"timeout_seconds": 30, "memory_mb": 512}
    assert (result["network_isolated"], result["egress_allowlist"], result["truncated"], result["oom_killed"]) == (True, [], False, False)


def test_program_runs_as_main_in_the_workspace(server):
    result = run(server, "import os, sys\nprint(os.getcwd(), sys.argv, os.path.realpath(__file__), os.listdir())")
    assert result["stdout"] == "/workspace ['main.py'] /workspace/main.py ['main.py']\n"


def test_each_run_is_alone_and_new(server):
    run(server, "open('left', 'w'); open('/tmp/left', 'w')")
    assert run(server, "import os; print(os.path.exists('left'), os.path.exists('/tmp/left'))")["stdout"] == "False False\n"


def test_bytes_that_are_not_text_are_replaced_and_never_an_error(server):
    assert run(server, "import os; os.write(1, b'a\\xff\\xf0\\x9f\\x98\\x80b\\x00')")["stdout"] == "a\ufffd\U0001f600b\x00"


def test_code_of_100000_characters_runs_and_one_more_is_refused(server):
    head = "print(len(open('main.py').read()))\n#"
    assert run(server, head + "\u20ac" * (100000 - len(head)))["stdout"] == "100000\n"
    assert "code" in refused(post(server, head + "x" * (100001 - len(head))), 422)


def test_language_is_taken_in_any_case_and_another_is_named(server):
    assert run(server, "print(1)", language="PyThOn")["language"] == "python"
    assert refused(post(server, language="ruby"), 400) == "Unsupported language: ruby"
    assert refused(post(server, language="Python\0"), 400).startswith("Unsupported language: Python")
    assert refused(post(server, language=""), 400) == "Unsupported language: "


@pytest.mark.parametrize(
    "body, field",
    [
        ({"code": ""}, "code"),
        ({"code": 5}, "code"),
        ({"code": None}, "code"),
        ({"language": 5}, "language"),
        ({"limits": 5}, "limits"),
        ({"limits": {"timeout_seconds": 0}}, "timeout_seconds"),
        ({"limits": {"timeout_seconds": 301}}, "timeout_seconds"),
        ({"limits": {"timeout_seconds": 1.5}}, "timeout_seconds"),
        ({"limits": {"timeout_seconds": True}}, "timeout_seconds"),
        ({"limits": {"memory_mb": 15}}, "memory_mb"),
        ({"limits": {"memory_mb": 8193}}, "memory_mb"),
        ({"limits": {"max_output_bytes": 1023}}, "max_output_bytes"),
        ({"snapshot": "maybe"}, "snapshot"),
        ({"snapshot_id": 1}, "snapshot_id"),
        ({"egress_allowlist": "a"}, "egress_allowlist"),
        ({"egress_allowlist": [1]}, "egress_allowlist"),
    ],
)
def test_wrong_types_and_ranges_are_422_and_name_the_field(server, body, field):
    assert field in refused(post(server, **body), 422)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"code"', b'{"code": "1", "code": "2"}', b"\xff{}"])
def test_bodies_that_are_no_object_are_422_in_both_shapes(server, body):
    refused(server.api.ask("POST", "/v1/run", data=body, headers={"Content-Type": "application/json"}), 422)


def test_unknown_fields_are_not_looked_at(server):
    assert (
        run(server, "print(1)", stdin="x", limits={"cpus": 3, "timeout_seconds": 9}, future={"a": [1]})["limits_applied"]["timeout_seconds"]
        == 9
    )


def test_null_is_not_given(server):
    nothing = dict.fromkeys(("language", "limits", "snapshot", "snapshot_id", "egress_allowlist"))
    assert run(server, "print(1)", **nothing)["stdout"] == "1\n"
    limits = dict.fromkeys(("timeout_seconds", "memory_mb", "max_output_bytes"))
    assert run(server, "print(1)", limits=limits, snapshot_id="")["stdout"] == "1\n"


def test_other_paths_keep_the_one_shape(server):
    check_error(server.api.ask("POST", "/v1/sandboxes", json={"image": 5}), 422)
    check_error(server.api.ask("GET", "/v1/runs"), 404)


@pytest.mark.gate
def test_every_error_of_these_paths_has_both_shapes(server):
    assert refused(server.api.ask("GET", "/v1/run"), 405) == "this path knows POST, OPTIONS"
    assert refused(server.api.ask("POST", "/health"), 405) == "this path knows GET, HEAD, OPTIONS"
    refused(server.api.ask("POST", "/v1/run", json={"code": "1"}, key="x" * 20), 401)
    refused(requests.post(server.url + "/v1/run", json={"code": ""}, timeout=10), 401)
    refused(server.api.ask("POST", "/v1/run", data=b"{}", headers={"Content-Type": "text/plain"}), 415)
    refused(server.api.ask("POST", "/v1/run", data=b" " * 1100000, headers={"Content-Type": "application/json"}), 413)
    refused(server.api.ask("POST", "/v1/run", json={"code": "1"}, headers={"Origin": "http://evil.example"}), 403)


def test_health_is_short_needs_no_key_and_tells_of_the_engine(server, own, faulty):
    answer = requests.get(server.url + "/health", timeout=10)
    assert answer.status_code == 200 and list(answer.json()) == ["status", "version", "backend"]
    assert answer.json()["status"] == "ok" and answer.json()["backend"] == "docker"
    s = own(socket_path=faulty.path)
    faulty.mute()
    assert wait_until(lambda: requests.get(s.url + "/health", timeout=10).status_code == 502)
    refused(requests.get(s.url + "/health", timeout=10), 502)
    faulty.mute(False)
    assert wait_until(lambda: s.api.healthy())


# ---- limits


def test_past_its_time_it_is_408_all_of_it_is_over_and_nothing_is_kept(alone):
    code = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nif os.fork() == 0: os.setsid()\ntime.sleep(77)"
    began = time.monotonic()
    answer = post(alone, code, limits={"timeout_seconds": 2}, snapshot=True)
    assert refused(answer, 408) == "Execution timed out" and time.monotonic() - began < 60
    assert alone.api.snapshot_ids() == []


def test_memory_is_clamped_and_what_was_applied_is_reported(own):
    s = own(MAX_MEMORY_MB=256, DEFAULT_MEMORY_MB=128, RUN_TIMEOUT_SECONDS=7)
    assert run(s, "print(1)")["limits_applied"] == {"timeout_seconds": 7, "memory_mb": 128}
    code = "print(open('/sys/fs/cgroup/memory/memory.limit_in_bytes').read() if __import__('os').path.exists('/sys/fs/cgroup/memory') else open('/sys/fs/cgroup/memory.max').read())"
    result = run(s, code, limits={"memory_mb": 8192, "timeout_seconds": 300})
    assert result["limits_applied"] == {"timeout_seconds": 300, "memory_mb": 256} and int(result["stdout"]) == 256 << 20


def test_limits_of_runs_are_apart_from_those_of_sandboxes(own):
    s = own(RUN_MEMORY_MB=96, RUN_MAX_MEMORY_MB=128, MAX_EXEC_TIMEOUT_SECONDS=5, DEFAULT_EXEC_TIMEOUT_SECONDS=5)
    assert run(s, "print(1)")["limits_applied"] == {"timeout_seconds": 5, "memory_mb": 96}
    assert run(s, "print(1)", limits={"memory_mb": 400})["limits_applied"]["memory_mb"] == 128
    assert s.api.create(memory_mb=400).data["memory_mb"] == 400


def test_out_of_memory_is_the_kernels_word(server):
    eat = "b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\nprint('never')"
    result = run(server, eat, limits={"memory_mb": 64})
    assert (result["oom_killed"], result["exit_code"], result["stdout"]) == (True, 137, "")
    child = f"import subprocess, sys\np = subprocess.run([sys.executable, '-c', {eat!r}])\nprint(p.returncode)"
    result = run(server, child, limits={"memory_mb": 64})
    assert (result["oom_killed"], result["exit_code"], result["stdout"]) == (True, 0, "-9\n")


def test_a_kill_without_the_kernel_or_an_empty_output_is_no_lack_of_memory(server):
    for code in ("import os; os.kill(os.getpid(), 9)", "import os; os._exit(137)", "raise SystemExit(1)"):
        result = run(server, code, limits={"memory_mb": 64})
        assert (result["oom_killed"], result["stdout"]) == (False, "") and result["exit_code"] in (1, 137)


@pytest.mark.parametrize(
    "code, given, expected",
    [
        ("raise MemoryError", True, True),
        ("raise MemoryError('text: with MemoryError\\n')", True, True),
        ("class _ArrayMemoryError(MemoryError): pass\nraise _ArrayMemoryError('x' * 100)", True, True),
        ("raise MemoryError", False, False),
        ("print('MemoryError', file=__import__('sys').stderr); raise ValueError", True, False),
        ("try:\n raise MemoryError\nexcept MemoryError: print('MemoryError', file=__import__('sys').stderr)", True, False),
    ],
)
def test_memory_error_that_ended_the_program_counts_if_a_limit_was_given(server, code, given, expected):
    assert run(server, code, limits={"memory_mb": 128} if given else {})["oom_killed"] is expected


def test_output_is_cut_at_a_whole_character_by_bytes_and_says_so(server):
    result = run(server, "import sys; sys.stdout.write('\\u20ac' * 1000)", limits={"max_output_bytes": 1024})
    assert result["stdout"] == "\u20ac" * 341 and result["truncated"] is True and result["stderr"] == ""
    result = run(
        server,
        "import sys; sys.stdout.write('x' * 1000); sys.stdout.flush(); sys.stderr.write('y' * 24)",
        limits={"max_output_bytes": 1024},
    )
    assert (len(result["stdout"]), len(result["stderr"]), result["truncated"]) == (1000, 24, False)


def test_servers_output_limit_is_the_most(own):
    s = own(RUN_OUTPUT_BYTES=2048)
    result = run(s, "print('x' * 5000)", limits={"max_output_bytes": 4000})
    assert (len(result["stdout"]), result["truncated"]) == (2048, True)


def test_flood_of_output_ends_with_its_time_and_does_not_grow_the_server(own):
    s = own()
    run(s, "print(1)")
    before = s.memory()
    began = time.monotonic()
    code = "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)"
    refused(post(s, code, limits={"timeout_seconds": 3}), 408)
    assert time.monotonic() - began < 60 and s.memory() < before + 64 * 1024
    s.api.list()
    nothing_left(s)


def test_no_way_out(server):
    code = (
        "import socket\nfor a in [('1.1.1.1', 53), ('172.17.0.1', 22)]:\n"
        " try: socket.create_connection(a, 2); print('open')\n except OSError: print('shut')\n"
        "print([n for _, n in socket.if_nameindex()])"
    )
    result = run(server, code)
    assert result["stdout"] == "shut\nshut\n['lo']\n" and result["network_isolated"] is True


def test_limits_of_the_server_hold_for_runs_and_one_too_many_is_429(own):
    s = own(MAX_SANDBOXES=3)
    answers = at_once([lambda: post(s, "import time; time.sleep(6); print(1)") for _ in range(8)])
    assert {a.status_code for a in answers} == {200, 429} and sum(a.status_code == 200 for a in answers) <= 3
    assert all("Retry-After" in a.headers and refused(a, 429) for a in answers if a.status_code == 429)
    nothing_left(s)


@pytest.mark.limit(300)
def test_eight_at_once_and_one_after_the_other_do_not_stand_in_each_others_way(own):
    s = own(MAX_SANDBOXES=8)
    for _ in range(2):
        assert {r["stdout"] for r in at_once([lambda i=i: run(s, f"print({i})") for i in range(8)])} == {f"{i}\n" for i in range(8)}
    for i in range(5):
        assert run(s, f"print({i})")["stdout"] == f"{i}\n"
    nothing_left(s)


@pytest.mark.limit(400)
def test_fifty_at_once_are_each_answered_truly(own):
    s = own(MAX_SANDBOXES=20)
    answers = at_once([lambda i=i: (i, post(s, f"print({i})", timeout=200)) for i in range(50)])
    for i, answer in answers:
        assert answer.status_code in (200, 429), answer.text
        assert answer.status_code == 429 or answer.json()["stdout"] == f"{i}\n"
    assert sum(a.status_code == 200 for _, a in answers) >= 20
    nothing_left(s)


# ---- snapshots


def test_snapshot_of_one_run_feeds_the_next_and_is_without_the_program(server):
    first = run(server, "import os\nos.mkdir('pkg'); open('pkg/mod.py', 'w').write('value = 42')", snapshot=True)
    assert re.fullmatch(r"snap_[0-9a-f]{16}", first["snapshot_id"])
    second = run(
        server,
        "import os\nfrom pkg import mod\nprint(mod.value, os.listdir())\nopen('new', 'w')",
        snapshot_id=first["snapshot_id"],
        snapshot=True,
    )
    assert second["stdout"].startswith("42 [") and second["snapshot_id"] != first["snapshot_id"]
    info = server.api.ask("GET", f"/v1/snapshots/{second['snapshot_id']}").json()
    assert info["parent_snapshot_id"] == first["snapshot_id"]
    box = server.api.fork(second["snapshot_id"])
    assert sorted(n for n in box.names() if n != "__pycache__") == ["new", "pkg"]
    box.delete()


def test_program_that_fails_keeps_its_snapshot(server):
    assert run(server, "open('kept', 'w'); 1 / 0", snapshot=True)["snapshot_id"]


def test_own_file_that_the_program_changed_is_kept(server):
    """It is removed only while it is the very file that was put there."""
    for code, names in (
        ("open('main.py', 'w').write('other')", ["main.py"]),
        ("import os; os.utime('main.py', (1, 1))", ["main.py"]),
        ("import os; os.remove('main.py')", []),
        ("import os; os.remove('main.py'); os.mkdir('main.py')", ["main.py"]),
        ("import os; os.rename('main.py', 'was'); os.symlink('was', 'main.py')", ["main.py", "was"]),
        ("import os; os.link('main.py', 'second')", ["second"]),
    ):
        box = server.api.fork(run(server, code, snapshot=True)["snapshot_id"])
        assert box.names() == names, code
        box.delete()


def test_unknown_snapshots_are_400_with_their_name(server):
    for name in ("snap_" + "0" * 16, "no-such-snapshot", "0" * 32, "snap_0\0"):
        assert refused(post(server, snapshot_id=name), 400) == f"Unknown snapshot: {name.split(chr(0))[0]}"


def test_snapshot_of_what_a_hostile_run_leaves(server):
    """Sockets, unreadable files, deep folders and odd names do not hinder it."""
    code = (
        "import os, socket\ns = socket.socket(socket.AF_UNIX); s.bind('sock')\nos.mkfifo('fifo')\n"
        "open('secret', 'w').write('x'); os.chmod('secret', 0)\nos.mkdir('shut'); open('shut/in', 'w'); os.chmod('shut', 0)\n"
        "os.symlink('/etc/passwd', 'link')\nopen(b'n\\xff\\n', 'w')\nd = '.'\n"
        "for i in range(40): d += '/' + 'd' * 60; os.mkdir(d)\nif os.fork() == 0:\n os.setsid()\n while True: open('busy', 'a').write('x')\n"
    )
    result = run(server, code, snapshot=True)
    second = run(server, "import os; print(sorted(os.listdir(b'.')))", snapshot_id=result["snapshot_id"])
    for name in ("fifo", "secret", "shut", "link"):
        assert name in second["stdout"]
    assert "sock" not in second["stdout"].replace("'", "")


def test_snapshot_that_is_too_large_is_413_and_nothing_is_kept(own):
    s = own(MAX_SNAPSHOT_BYTES=1 << 20)
    refused(post(s, "open('big', 'wb').write(os.urandom(4 << 20))".replace("os.", "__import__('os')."), snapshot=True), 413)
    assert s.api.snapshot_ids() == []
    nothing_left(s)


def test_snapshot_with_a_folder_where_the_program_goes_is_an_error_that_says_so(server):
    first = run(server, "import os; os.remove('main.py'); os.mkdir('main.py')", snapshot=True)
    assert "main.py" in refused(post(server, snapshot_id=first["snapshot_id"]), 400)


# ---- images and languages


def test_javascript_runs_by_node_under_both_names(server, engine):
    node(engine)
    for language in ("javascript", "node", "JavaScript"):
        result = run(server, "console.log(6 * 7, require('path').basename(__filename), process.cwd())", language=language)
        assert result["stdout"] == "42 main.js /workspace\n" and result["language"] == language.lower()
    result = run(server, "process.stderr.write('oh'); process.exit(4)", language="node")
    assert (result["stderr"], result["exit_code"]) == ("oh", 4)


def test_javascript_keeps_snapshots_without_its_file(server, engine):
    node(engine)
    result = run(server, "require('fs').writeFileSync('a.txt', 'x')", language="node", snapshot=True)
    assert run(server, "import os; print(sorted(os.listdir()))", snapshot_id=result["snapshot_id"])["stdout"] == "['a.txt', 'main.py']\n"


def test_image_without_the_language_is_400_and_says_so(own, engine):
    tiny(engine, "tiny-run:1")
    s = own(DEFAULT_IMAGE="tiny-run:1", NODE_IMAGE="tiny-run:1")
    assert refused(post(s), 400) == "image tiny-run:1 has neither python3 nor python"
    assert refused(post(s, language="node"), 400) == "image tiny-run:1 has no node"
    assert refused(post(own(NODE_IMAGE="not/there:1"), language="node"), 400).startswith("image not/there:1 is not available")
    nothing_left(s)


def test_python_is_taken_where_there_is_no_python3(own, engine):
    tiny(engine, "tiny-python:1", members={"usr": None, "usr/bin": None, "usr/bin/python": ("#!/bin/sh\necho python $1\n", 0o755, 0, 0)})
    s = own(DEFAULT_IMAGE="tiny-python:1")
    assert run(s, "x")["stdout"] == "python main.py\n"


def test_program_that_ends_with_127_or_126_is_a_result(server):
    for code in (126, 127):
        assert run(server, f"raise SystemExit({code})")["exit_code"] == code


def test_images_of_runs_obey_the_policy(own):
    s = own(ALLOWED_IMAGES="python:*")
    assert NODE_IMAGE in refused(post(s, language="node"), 403)


# ---- hostile code


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.close(0); os.close(1); os.close(2)\nos.closerange(0, 1000)",
        "import os\nos.kill(os.getppid(), 9)\nprint('went on')",
        "import os\nfor s in range(1, 65):\n try: os.kill(1, s)\n except OSError: pass\nprint('went on')",
        "import os\nos.kill(-1, 9)",
        "import os\nos.chmod('/workspace', 0); os.remove",
    ],
)
def test_code_that_hits_around_itself_is_answered_and_gone(server, code):
    assert post(server, code, limits={"timeout_seconds": 5}).status_code in (200, 408, 502)
    assert run(server, "print(1)")["stdout"] == "1\n"


@pytest.mark.limit(180)
def test_fork_bomb_ends_with_its_time(alone):
    code = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    assert post(alone, code, limits={"timeout_seconds": 3}).status_code in (408, 502)


def test_workspace_that_is_filled_is_its_own_matter(server):
    code = "import os\ntry:\n with open('f', 'wb') as f:\n  for _ in range(64): f.write(os.urandom(1 << 20))\n print('full')\nexcept OSError as e: print(e)"
    assert run(server, code)["exit_code"] == 0


def test_ctrl_c_and_signals_are_exit_codes(server):
    assert run(server, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")["exit_code"] == 143


# ---- what is left


def test_client_that_goes_away_ends_the_run(alone):
    """While the sandbox is made, and while the program runs."""
    body = json.dumps({"code": "import time; time.sleep(50)", "limits": {"timeout_seconds": 60}}).encode()
    head = f"POST /v1/run HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {KEY}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    for wait in (0, 0.05, None):
        with FRONT.connect(alone.port) as s:
            s.sendall(head + body)
            if wait is None:
                assert wait_until(lambda: alone.on_engine()[0])
            time.sleep(1 if wait is None else wait)
        nothing_left(alone)


def test_runs_are_in_no_list_and_not_in_the_data_directory_while_they_run(alone):
    result = {}
    t = threading.Thread(target=lambda: result.update(run(alone, "import time; time.sleep(15); print(1)")))
    t.start()
    box = wait_until(lambda: re.search(r"sb_[0-9a-f]{16}", " ".join(alone.on_engine()[0])), 30)[0]
    time.sleep(1)
    assert alone.api.list() == [] and not list((alone.data / "sandboxes").glob("*.json"))
    at, command = f"/v1/sandboxes/{box}", {"command": "true"}
    for method, path, body in (
        ("GET", at, None), ("POST", at + "/exec", command), ("POST", at + "/timeout", {"timeout_seconds": 9}), ("DELETE", at, None),
        ("POST", at + "/snapshots", None), ("POST", at + "/rollback", {"snapshot_id": "snap_" + "1" * 16}), ("GET", at + "/files/list", None),
    ):  # fmt: skip
        assert check_error(alone.api.ask(method, path, json=body), 404) == f"sandbox {box} not found"
    t.join()
    assert result["stdout"] == "1\n"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.limit(200)
def test_kill_of_any_program_in_a_run_leaves_nothing(own, program):
    alone = own(POOL=0)  # its session is the only one
    answers = []

    def ask():
        try:
            answers.append(post(alone, "import time; time.sleep(30)", limits={"timeout_seconds": 40}))
        except requests.RequestException as exc:
            answers.append(exc)

    t = threading.Thread(target=ask)
    t.start()
    assert wait_until(lambda: alone.on_engine()[0] and alone.pids()["sessiond"], 30)
    time.sleep(1)
    alone.kill_program(program)
    t.join(60)
    assert not t.is_alive()
    assert not isinstance(answers[0], requests.Response) or answers[0].status_code in (502, 503), answers
    nothing_left(alone)
    assert run(alone, "print(1)")["stdout"] == "1\n"


def test_end_of_the_server_in_a_run_is_503_and_leaves_nothing(faulty, own):
    s = own(socket_path=faulty.path, POOL=0)
    answers = []
    t = threading.Thread(target=lambda: answers.append(post(s, "import time; time.sleep(30)", limits={"timeout_seconds": 40})))
    t.start()
    assert wait_until(lambda: s.on_engine()[0], 30)
    time.sleep(1)
    id = s.engine.call("GET", f"/containers/{s.on_engine()[0][0]}/json")["Id"]
    s.end()
    t.join(30)
    refused(answers[0], 503)
    # A busy engine may not have done it by now: the next start has what is left.
    assert any(call.startswith("DELETE") and id in call for call in faulty.seen)
    s.start()
    nothing_left(s)


@pytest.mark.parametrize("pool", [0, 2])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_end_of_the_server_right_after_runs_leaves_nothing(own, how, pool):
    """Their containers may wait for a moment without runs."""
    s = own(POOL=pool, DEFAULT_MEMORY_MB=64)
    at_once([lambda: run(s, "print(1)")] * 3)
    s.end(how)
    s.settings["POOL"] = 0
    s.start()
    nothing_left(s)
    assert wait_until(lambda: not s.members(), 60, 0.2), s.members()


def test_what_a_run_began_ends_although_the_engine_does_not_remove_it(own, faulty):
    s = own(socket_path=faulty.path)
    faulty.hold("DELETE ")
    run(s, "import subprocess; subprocess.Popen(['sleep', '9876.5'], start_new_session=True)")
    assert wait_until(lambda: not [p for p in os.listdir("/proc") if p.isdigit() and read(p, "cmdline") == b"sleep\0009876.5\0"])
    assert s.on_engine()[0]
    faulty.let_go()
    nothing_left(s)


def test_engine_that_fails_is_502_and_leaves_nothing(own, faulty):
    s = own(socket_path=faulty.path)
    for call in ("POST .*/containers/create", "POST .*/start"):
        faulty.fail(call)
        refused(post(s), 502)
        faulty.fail(None)
        nothing_left(s)
    faulty.fail("DELETE ")
    assert run(s, "print(1)")["stdout"] == "1\n"
    assert wait_until(lambda: "did not remove a sandbox" in s.log.read_text())
    faulty.fail(None)
    nothing_left(s)


def test_session_that_dies_in_a_run_is_502(alone):
    answers = []
    t = threading.Thread(target=lambda: answers.append(post(alone, "import time; time.sleep(30)", limits={"timeout_seconds": 40})))
    t.start()
    assert wait_until(lambda: alone.on_engine()[0], 30)
    time.sleep(1)
    container = alone.on_engine()[0][0]
    assert wait_until(lambda: alone.engine.api("DELETE", f"/v1.41/containers/{container}?force=1&v=1")[0] in (204, 404), step=0.5)
    t.join(60)
    refused(answers[0], 502)


def test_audit_has_a_line_for_each_step_of_a_run(own):
    s = own()
    request = post(s, "open('a', 'w')", snapshot=True).headers["X-Request-Id"]
    nothing_left(s)

    def mine():
        lines = [json.loads(line) for line in (s.data / "audit.log").read_text().split("\n")[:-1]]
        return [line["action"] for line in lines if line.get("request_id") == request]

    wanted = ["create", "file_write", "exec", "file_remove", "snapshot", "destroy"]
    assert wait_until(lambda: mine() == wanted), mine()
