"""What an operator sees of a whole server: GET /metrics, which Prometheus itself scrapes, the rules for alerts, the log as JSON, request ids
in it, and the state at SIGUSR1."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import requests
from harness import KEY, ROOT, Api, check_error
from machine import free_port, wait_until

sys.path.insert(0, str(ROOT / "tests/e2e/clients"))
import openapi_kit  # noqa: E402

RULES = ROOT / "etc/prometheus-rules.yaml"
NAMES = set(re.findall(r"^\| `(agent_sandbox_\w+)` \|", (ROOT / "docs/METRICS.md").read_text(), re.M))


def numbers(text):
    lines = [x.rpartition(" ") for x in text.splitlines() if not x.startswith("#")]
    return {name.removeprefix("agent_sandbox_"): float(value) for name, _, value in lines}


def line(key, **members):
    return json.dumps({"name": key, "digest": hashlib.sha256(key.encode()).hexdigest()} | members) + "\n"


class Metered:
    """A server with an address for metrics, and an operator's key."""

    def __init__(self, own, tmp_path, **settings):
        keys = tmp_path / "keys"
        keys.write_text(line("red", tenant="red") + line("operator", scopes=["admin"]))
        keys.chmod(0o600)
        self.server = own(KEYS_FILE=keys, METRICS_LISTEN="127.0.0.1:0", **settings)
        self.api = self.server.api

    @property
    def url(self):
        """That of the last start."""
        return re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", self.server.tail(1 << 20))[-1]

    def scrape(self):
        answer = requests.get(self.url, timeout=30)
        assert answer.status_code == 200, answer.text
        return numbers(answer.text)


@pytest.fixture
def metered(own, tmp_path):
    return lambda **settings: Metered(own, tmp_path, **settings)


def test_metrics_say_what_there_is(metered):
    m = metered(POOL=1)
    red = Api(m.server.url, "red")
    box = red.create(memory_mb=64, network=True)
    snap = box.snapshot()
    assert box.exec("true")["exit_code"] == 0
    check_error(red.ask("GET", "/v1/sandboxes/sb_0000000000000abc"), 404)
    got = m.scrape()
    assert got['sandboxes{state="running",tenant="red"}'] == 1 and got['snapshots{tenant="red"}'] == 1
    assert got['snapshot_bytes{tenant="red"}'] == sum(
        p.stat().st_size for p in (m.server.data / "snapshots").iterdir() if p.name.startswith(snap)
    )
    assert got['pool_misses_total{reason="network"}'] == 1 and got["engine_up"] == 1 and got["managerd_up"] == 1
    assert got['engine_call_seconds_count{call="create"}'] >= 1
    assert got['requests_total{route="/v1/sandboxes",method="POST",status="201"}'] == 1
    assert got['requests_total{route="/v1/sandboxes/{sandbox_id}",method="GET",status="404"}'] == 1
    assert got["restarts_total"] == 0
    for program, pids in m.server.pids().items():
        if program != "agent-sandbox":
            assert got[f'program_processes{{program="{program}"}}'] >= (1 if pids else 0), program
            assert got[f'program_memory_bytes{{program="{program}"}}'] > 100_000
            assert got[f'program_descriptors{{program="{program}"}}'] >= 4
    red.clear()
    assert wait_until(lambda: m.scrape()['sandboxes{state="running",tenant="red"}'] == 0)


def test_every_metric_of_the_page_is_there_and_no_other(metered):
    m = metered(POOL=1)
    m.api.healthy()
    text = requests.get(m.url, timeout=30).text
    assert set(re.findall(r"^# TYPE (\S+) ", text, re.M)) == NAMES
    p = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert p.returncode == 0 and p.stdout + p.stderr == ""


def test_on_the_servers_own_port_only_an_operators_key_sees_metrics(metered):
    m = metered()
    contract = openapi_kit.Contract(openapi_kit.load())
    check_error(m.api.ask("GET", "/metrics", key="wrong-key-0123456789"), 401)
    check_error(m.api.ask("GET", "/metrics", key=KEY), 403)
    check_error(m.api.ask("GET", "/metrics", key="red"), 403)
    answer = contract.judge(m.api.ask("GET", "/metrics", key="operator"))
    assert numbers(answer.text)["managerd_up"] == 1


def test_restarts_are_counted_over_restarts(metered):
    m = metered()
    for n in (1, 2):
        m.server.kill_program("egressd")
        assert wait_until(m.api.healthy, 60)
        assert wait_until(lambda n=n: m.scrape()["restarts_total"] == n, 60)


def test_a_port_that_is_taken_ends_the_start_with_one_line(own):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = own(start=False, METRICS_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}")
        server.launch()
        assert server.process.wait(60) == 2
    assert "AGENT_SANDBOX_METRICS_LISTEN: cannot listen on 127.0.0.1:" in server.tail()


def test_managerd_that_stands_still_is_told_and_harms_no_scrape(metered):
    m = metered()
    pid = m.server.pid("managerd")
    os.kill(pid, signal.SIGSTOP)
    try:
        got = m.scrape()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert got["managerd_up"] == 0 and "engine_up" not in got
    assert wait_until(lambda: m.scrape()["managerd_up"] == 1)


def test_fifty_scrapes_a_second_harm_nobody(metered):
    m = metered()
    box = m.api.create(memory_mb=64)
    stop, answers = threading.Event(), []

    def scrape(url=m.url):
        session = requests.Session()
        while not stop.is_set():
            began = time.monotonic()
            answers.append(session.get(url, timeout=60).status_code)
            stop.wait(max(0, 0.1 - (time.monotonic() - began)))

    threads = [threading.Thread(target=scrape) for _ in range(5)]
    for t in threads:
        t.start()
    try:
        for _ in range(20):
            assert box.exec("echo hi")["stdout"] == "hi\n"
        assert wait_until(lambda: len(answers) >= 250, 100)
    finally:
        stop.set()
        for t in threads:
            t.join(90)
    assert set(answers) == {200}
    box.delete()


class Prometheus:
    """A real one, in a folder."""

    def __init__(self, folder, jobs):
        self.url, config = f"http://127.0.0.1:{free_port()}", folder / "prometheus.yml"
        config.write_text(
            json.dumps(
                {"global": {"scrape_interval": "1s", "evaluation_interval": "2s"}, "rule_files": [str(RULES)], "scrape_configs": jobs}
            )
        )
        command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data"]
        self.log = (folder / "log").open("wb")
        command += [f"--web.listen-address={self.url.removeprefix('http://')}", f"--web.console.libraries={folder}"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=self.log, stderr=self.log, start_new_session=True)

    def get(self, path, **params):
        try:
            answer = requests.get(self.url + path, params=params, timeout=30)
        except requests.ConnectionError:
            return None
        return answer.json().get("data") if answer.status_code == 200 else None

    def value(self, query):
        """{labels' job: number}"""
        found = self.get("/api/v1/query", query=query) or {"result": []}
        return {r["metric"].get("job"): float(r["value"][1]) for r in found["result"]}

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        self.log.close()


def test_a_real_prometheus_scrapes_both_and_reads_the_rules(metered, tmp_path):
    m = metered()
    box = m.api.create(memory_mb=64)
    key = {"credentials": "operator"}
    jobs = [
        {"job_name": "agent-sandbox", "static_configs": [{"targets": [m.url.split("/")[2]]}]},
        {
            "job_name": "with-a-key",
            "scheme": m.server.url.split(":")[0],
            "authorization": key,
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [{"targets": [m.server.url.split("/")[2]]}],
        },
    ]
    p = Prometheus(tmp_path, jobs)
    try:
        both = {"agent-sandbox": 1.0, "with-a-key": 1.0}
        assert wait_until(lambda: p.value("up") == both, 60), (p.value("up"), (tmp_path / "log").read_text()[-2000:])
        assert wait_until(lambda: p.value('sum by (job) (agent_sandbox_sandboxes{state="running"})') == both, 60)
        assert {t["lastError"] for t in p.get("/api/v1/targets")["activeTargets"]} == {""}
        (group,) = p.get("/api/v1/rules")["groups"]
        assert len(group["rules"]) == RULES.read_text().count("- alert:")
        assert wait_until(lambda: {r["health"] for r in p.get("/api/v1/rules")["groups"][0]["rules"]} == {"ok"}, 90)
    finally:
        p.close()
    box.delete()


def test_rules_are_sound_and_speak_of_metrics_that_there_are():
    p = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True)
    assert p.returncode == 0 and "SUCCESS" in p.stdout, p.stdout + p.stderr
    named = {re.sub(r"_(bucket|sum|count)$", "", n) for n in re.findall(r"agent_sandbox_\w+", RULES.read_text())}
    assert named and named <= NAMES


def objects(server):
    """The lines of the log; the last one may be half written still."""
    return [json.loads(x) for x in server.log.read_text().split("\n")[:-1]]


def test_log_as_json_is_one_object_a_line_of_every_program(own):
    server = own(LOG_FORMAT="json", LOG_LEVEL="debug")
    box = server.api.create(memory_mb=64)
    box.exec("true")
    server.process.send_signal(signal.SIGUSR1)
    programs = {"agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond"}
    assert wait_until(lambda: {o["program"] for o in objects(server)} >= programs), server.tail()
    for o in objects(server):
        assert set(o) - {"request_id"} == {"time", "level", "program", "pid", "message"}
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", o["time"]) and o["level"] in ("debug", "info", "warning")
    assert {o["pid"] for o in objects(server) if o["program"] == "apid"} == set(server.pids()["apid"])


def test_a_request_is_found_by_its_id_in_the_log_of_each_program(faulty, own):
    server = own(LOG_FORMAT="json", LOG_LEVEL="debug", socket_path=faulty.path)

    def told(id, program):
        return [o["message"] for o in objects(server) if o.get("request_id") == id and o["program"] == program]

    answer = server.api.note(server.api.ask("POST", "/v1/sandboxes", json={"memory_mb": 64}, headers={"X-Request-Id": "make-1"}))
    assert answer.status_code == 201
    assert wait_until(lambda: told("make-1", "managerd") and told("make-1", "apid"))
    assert f"sandbox {answer.json()['id']} is ready" in told("make-1", "managerd")[0] and "201" in told("make-1", "apid")[0]
    faulty.fail("/containers/create")
    answer = server.api.ask("POST", "/v1/sandboxes", json={"memory_mb": 64}, headers={"X-Request-Id": "make-2"})
    check_error(answer, 502)
    assert wait_until(lambda: told("make-2", "managerd"))
    assert answer.json()["error"]["message"] in told("make-2", "managerd")[0], "the engine's failure, by the id that the client has"
    faulty.fail(None)


def test_state_at_sigusr1_is_told_by_every_program_and_ends_none(own):
    server = own()
    box = server.api.create(memory_mb=64)
    stream = box.stream("sleep 60")
    pids = server.pids()
    server.process.send_signal(signal.SIGUSR1)

    def states():
        return re.findall(r"^\S+ ([\w-]+)\[\d+\]: info: (?:\S+: )?state: (.*)$", server.tail(1 << 20), re.M)

    programs = {"agent-sandboxd", "apid", "managerd", "dockerd-proxy", "egressd", "keyd", "sessiond"}
    assert wait_until(lambda: {p for p, _ in states()} >= programs), server.tail()
    assert wait_until(lambda: any("audit log" in text for _, text in states()))
    said = {text for program, text in states() if program == "managerd"}
    assert any("1 running, 0 stopped" in text for text in said) and any("requests: 1 running" in text for text in said)
    assert any(f"the oldest, of {box.id}, runs for" in text for text in said)
    assert server.pids() == pids and server.api.healthy()
    stream.close()
    box.delete()
