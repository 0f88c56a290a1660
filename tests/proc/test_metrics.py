"""GET /metrics of apid, with a managerd and a parent that may say anything, and managerd's part of it."""

# ruff: noqa: F811 - fixtures are imported, and named again as arguments

import contextlib
import re
import socket
import subprocess
import threading
import time

import layout
import pytest
from apid_server import BOX, BOX_URL, KEY, Server, error, head, statuses
from machine import wait_until
from managerd_kit import data, engine, key_line, start  # noqa: F401

PREFIX = "agent_sandbox_"
PAGE = (layout.ROOT / "docs/METRICS.md").read_text()
PROGRAMS = "apid managerd dockerd-proxy egressd keyd sessiond agent-sandboxd".split()


def samples(text):
    """{"name{labels}": number} without the prefix."""
    lines = [x.rpartition(" ") for x in text.splitlines() if not x.startswith("#")]
    assert all(name.startswith(PREFIX) for name, _, _ in lines)
    found = {name.removeprefix(PREFIX): float(value) for name, _, value in lines}
    assert len(found) == len(lines)
    return found


def figures(parent, timeout=30, **changed):
    """Answers as the parent."""
    parent.recv_until("P_ASK_FIGURES", timeout)
    n = layout.METRIC_PROGRAMS
    data = {"processes": range(1, n + 1), "memory": [4096] * n, "descriptors": [7] * (n - 1) + [-1]} | changed
    packed = {k: b"".join(v.to_bytes(8, "little", signed=True) for v in values) for k, values in data.items()}
    parent.send("P_FIGURES", 0, {"restarts": 3} | packed)


class Metered(Server):
    """With a second port, and a parent that answers."""

    def __init__(self, answers=True, **config):
        super().__init__(METRICS_LISTEN="127.0.0.1:1", **config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.metrics_port = listener.getsockname()[1]
            self.program.parent.send("P_METRICS", fd=listener)
        if answers:
            threading.Thread(target=self.answer, daemon=True).start()

    def answer(self):
        while not self.stopping:
            try:
                figures(self.program.parent, 0.2)
            except TimeoutError:
                pass
            except (layout.Gone, OSError):
                return

    def scrape(self, path="/metrics", status=200, **more):
        r = self.session().get(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=30, **more)
        assert r.status_code == status, r.text
        return r


@pytest.fixture
def metered():
    with Metered() as s:
        yield s


def check(text):
    p = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert p.returncode == 0 and p.stdout + p.stderr == "", p.stdout + p.stderr


def test_page_of_metrics_is_not_stale():
    p = subprocess.run([layout.ROOT / "tools/metrics-doc", "--check"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr


def test_metrics_need_a_key_and_what_managerd_says_of_it_counts(metered):
    error(metered("GET", "/metrics", key=None), 401)
    metered.on["METRICS"] = lambda s, m: s.reply(m, 403, "this key lacks the scope admin")
    assert "admin" in error(metered("GET", "/metrics"), 403)
    del metered.on["METRICS"]
    r = metered("GET", "/metrics")
    assert r.status_code == 200 and r.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert not metered.seen[-1].fields["open"]
    check(r.text)


def test_three_programs_numbers_come_together_and_promtool_finds_nothing(metered):
    text = metered.scrape().text
    assert metered.seen[-1].fields["open"] == 1
    check(text)
    got = samples(text)
    assert got['sandboxes{state="running",tenant="default"}'] == 2 and got["engine_up"] == got["managerd_up"] == 1
    assert got["restarts_total"] == 3
    assert [got[f'program_processes{{program="{p}"}}'] for p in PROGRAMS] == [1, 2, 3, 4, 5, 6, 7]
    assert got['program_descriptors{program="apid"}'] == 7 and 'program_descriptors{program="agent-sandboxd"}' not in got
    assert [k for k in got if k.startswith("build_info")] == [f'build_info{{version="{(layout.ROOT / "VERSION").read_text().strip()}"}}']
    named = {re.match(r"\w+", k)[0] for k in got}
    assert {re.sub(r"_(bucket|sum|count)$", "", n) for n in named} <= set(re.findall(rf"`{PREFIX}(\w+)`", PAGE))


def test_metrics_address_serves_metrics_and_nothing_else(metered):
    for path in ("/", "/healthz", "/v1/sandboxes", BOX_URL, "/docs", "/openapi.json", "/metrics/", "/metrics?x"):
        if path == "/metrics?x":
            metered.scrape(path)
        else:
            assert metered.scrape(path, 404, headers={"X-API-Key": KEY}).json()["error"]["code"] == "not_found"
    url = f"http://127.0.0.1:{metered.metrics_port}/metrics"
    assert metered.session().post(url, data=b"x", timeout=30).status_code == 405
    r = metered.session().head(url, timeout=30)
    assert r.status_code == 200 and r.content == b"" and int(r.headers["Content-Length"]) > 1000
    assert [m.name for m in metered.seen] == ["METRICS"] * 2


def test_pages_of_others_cannot_read_what_needs_no_key():
    with Metered(ALLOWED_HOSTS="", CORS_ORIGINS="https://page.example") as s:
        assert "Host" in s.scrape(status=403, headers={"Host": "rebound.example"}).text
        s.scrape(status=403, headers={"Origin": "https://page.example"})
        s.scrape(status=403, headers={"Sec-Fetch-Site": "cross-site"})
        s.scrape(headers={"Host": "localhost:1"})


def test_a_trusted_proxy_on_loopback_changes_nothing_at_the_metrics_address():
    with Metered(TRUSTED_PROXIES="127.0.0.1") as s:
        s.scrape(headers={"X-Forwarded-For": "192.0.2.1"})


def test_requests_are_counted_by_route_method_and_status(metered):
    for _ in range(3):
        assert metered("GET", BOX_URL).status_code == 200
    assert metered("HEAD", BOX_URL).status_code == 200
    assert metered("GET", BOX_URL.replace(BOX, "sb_00000000000000ff")).status_code == 404
    assert metered("GET", "/nowhere/at/all").status_code == 404
    assert metered("POST", BOX_URL).status_code == 405
    assert metered("POST", BOX_URL + "/exec", json={"command": "echo a"}).status_code == 200
    assert statuses(metered.raw(b"\x16\x03\x01 no request\r\n\r\n")[0]) == [400]
    got = samples(metered.scrape().text)
    box = 'route="/v1/sandboxes/{sandbox_id}",method='
    assert got[f'requests_total{{{box}"GET",status="200"}}'] == 3
    assert got[f'requests_total{{{box}"HEAD",status="200"}}'] == 1
    assert got[f'requests_total{{{box}"GET",status="404"}}'] == 1
    assert got['requests_total{route="other",method="GET",status="404"}'] == 1
    assert got['requests_total{route="other",method="POST",status="405"}'] == 1
    assert got['requests_total{route="other",method="other",status="400"}'] == 1
    assert got[f'request_seconds_count{{{box}"GET"}}'] == 5 == got[f'request_seconds_bucket{{{box}"GET",le="+Inf"}}']
    assert 0 < got[f'request_seconds_sum{{{box}"GET"}}'] < 60
    assert got['requests_total{route="/v1/sandboxes/{sandbox_id}/exec",method="POST",status="200"}'] == 1
    assert BOX not in str(got) and "nowhere" not in str(got)


def test_a_client_that_leaves_before_its_answer_is_counted_as_such(metered):
    with metered.connect() as s:
        body = b'{"command":["wait"]}'
        s.sendall(head("POST", BOX_URL + "/exec", f"Content-Length: {len(body)}", "Content-Type: application/json") + body)
        assert wait_until(lambda: getattr(metered, "waiting", False))
    name = 'requests_total{route="/v1/sandboxes/{sandbox_id}/exec",method="POST",status="left"}'
    assert wait_until(lambda: samples(metered.scrape().text).get(name) == 1)


def test_bytes_and_connections_are_counted(metered):
    before = samples(metered.scrape().text)
    with metered.connect(), metered.connect():
        assert wait_until(lambda: samples(metered.scrape().text)["connections"] >= 3)
        metered.files["/workspace/big"] = b"x" * 3_000_000
        assert metered("PUT", BOX_URL + "/files?path=up", data=b"y" * 2_000_000).status_code in (200, 201)
        assert len(metered("GET", BOX_URL + "/files?path=big").content) == 3_000_000
        after = samples(metered.scrape().text)
    assert 2_000_000 < after["received_bytes_total"] - before["received_bytes_total"] < 2_100_000
    assert 3_000_000 < after["sent_bytes_total"] - before["sent_bytes_total"] < 3_500_000
    assert after["connections_total"] - before["connections_total"] >= 4


HOSTILE = [
    ("sandboxes", {"text": 'x"} 1\nagent_sandbox_engine_up 0 #'}, "strange label"),
    ("sandboxes", {"text": ""}, "strange label"),
    ("sandboxes", {"text": "a\x00b"}, "strange label"),
    ("engine_up", {"text": "x"}, "strange label"),
    ("build_info", {}, "not its own"),
    ("restarts_total", {}, "not its own"),
    ("requests_total", {}, "not its own"),
    ("engine_up", {"item": 1}, "what there is not"),
    ("engine_call_seconds", {"item": 99}, "what there is not"),
]


@pytest.mark.parametrize(("name", "more", "why"), HOSTILE)
def test_a_managerd_that_was_taken_over_cannot_break_the_text(name, more, why):
    """apid ends, as at every breach; a client gets nothing of it."""
    with Metered() as s:

        def lie(s, m):
            with contextlib.suppress(OSError):  # it ends at the first of them
                s.metric(m, name, 1, **more)
                s.reply(m, 200)

        s.on["METRICS"] = lie
        with pytest.raises(OSError):
            s.scrape()
        s.program.wait(30)
        assert s.program.status == 1 and why in s.program.log(), s.program.log()
        s.program.status = 0  # for stop(): it has ended as it should


@pytest.mark.parametrize("values", [(-1,), (1 << 62,), (1, 2)])
def test_values_that_are_none_end_apid(values):
    with Metered() as s:
        s.on["METRICS"] = lambda s, m: s.metric(m, "engine_up", *values)
        with pytest.raises(OSError):
            s.scrape()
        s.program.wait(30)
        assert s.program.status == 1 and "strange value" in s.program.log()
        s.program.status = 0


def test_a_series_that_comes_twice_ends_apid():
    with Metered() as s:

        def twice(s, m):
            with contextlib.suppress(OSError):
                s.metric(m, "snapshots", 1, text="a")
                s.metric(m, "snapshots", 2, text="a")

        s.on["METRICS"] = twice
        with pytest.raises(OSError):
            s.scrape()
        s.program.wait(30)
        assert s.program.status == 1 and "out of order" in s.program.log()
        s.program.status = 0


def test_a_managerd_that_says_nothing_costs_two_seconds_and_its_part(metered):
    metered.on["METRICS"] = lambda s, m: s.metric(m, "engine_up", 1)
    got = samples(metered.scrape().text)
    assert got["managerd_up"] == 0 and "engine_up" not in got and got["restarts_total"] == 3
    assert "does not answer" in error(metered("GET", "/metrics"), 503)
    assert samples(metered.scrape().text)["requests_waiting"] >= 3


def test_a_parent_that_says_nothing_costs_two_seconds_and_its_part():
    with Metered(answers=False) as s:
        got = samples(s.scrape().text)
        assert got["managerd_up"] == 1 and "restarts_total" not in got
        figures(s.program.parent)
        assert wait_until(lambda: "restarts_total" in samples(s.scrape().text))


def test_parent_is_asked_once_a_second_however_often_apid_is():
    with Metered(answers=False) as s:
        asked, began = [], time.monotonic()

        def answer():
            while not s.stopping:
                try:
                    figures(s.program.parent, 0.2)
                    asked.append(1)
                except TimeoutError:
                    pass
                except (layout.Gone, OSError):
                    return

        threading.Thread(target=answer, daemon=True).start()
        for _ in range(200):
            s.scrape()
        assert 1 <= len(asked) <= time.monotonic() - began + 2


def test_a_socket_for_metrics_that_is_none_ends_apid():
    with Server() as s:
        a, b = socket.socketpair()
        with a, b:
            s.program.parent.send("P_METRICS", fd=a)
        s.program.wait(30)
        assert s.program.status == 1 and "not a socket for metrics" in s.program.log()
        s.program.status = 0


# managerd's part


def create(s, key):
    fields = {"network": layout.NOT_GIVEN, "read_only": layout.NOT_GIVEN}
    with s.records() as fd:
        m = s.call("CREATE", fields, fd=fd, key=key)
    assert m.name == "SANDBOX", m


def told(got):
    """{name: {text: [values]}} of METRIC messages; the item of a histogram is in the text."""
    names = {v: k.removeprefix("METRIC_") for k, v in layout.CONST.items() if k.startswith("METRIC_") and k[7].islower()}
    out = {}
    for m in got[:-1]:
        text = m.tail.decode() + (str(m.fields["item"]) if m.fields["item"] else "")
        data = m.fields["value"]
        values = [int.from_bytes(data[i : i + 8], "little", signed=True) for i in range(0, len(data), 8)]
        assert text not in out.setdefault(names[m.fields["metric"]], {})
        out[names[m.fields["metric"]]][text] = values
    return out


def test_managerd_counts_what_there_is(start):
    s = start(keys=[key_line("red", tenant="red"), key_line("root", scopes=["admin"])])
    create(s, "red")
    got = told(s.call("METRICS", key="root"))
    assert got["sandboxes"]["red"][:5] == [0, 1, 0, 0, 0] and sum(got["sandboxes"]["default"]) == 0
    assert got["engine_up"][""][0] == 1 and got["sessions"][""][0] == 1
    took = got["engine_call_seconds"][str(layout.METRIC_CALL_CREATE)]
    assert sum(took[:-1]) == 1 and took[-1] > 0
    assert got["engine_failures_total"][""][layout.METRIC_CALL_CREATE] == 0


def test_tenants_beyond_the_bound_are_counted_together(start):
    most = layout.METRIC_TENANTS
    keys = [key_line(f"k{i}", tenant=f"t{i:03}") for i in range(most + 9)] + [key_line("other", tenant="other")]
    s = start(keys=[*keys, key_line("root", scopes=["admin"])])
    for name in ("k0", f"k{most + 3}", f"k{most + 5}", "other"):
        create(s, name)
    got = told(s.call("METRICS", key="root"))
    assert len(got["sandboxes"]) == most + 1
    assert got["sandboxes"]["t000"][1] == 1 and got["sandboxes"]["other"][1] == 3
    assert list(got["sandboxes"]) == sorted(got["sandboxes"])


def test_managerd_tells_without_a_key_only_where_the_operator_said_so(start):
    s = start(config={"METRICS_LISTEN": "127.0.0.1:9464"})
    assert told(s.call("METRICS", {"open": 1}, key=None))["engine_up"]
    assert s.call("METRICS", key=None).fields["status"] == 401


def test_an_apid_that_asks_without_a_key_elsewhere_ends_managerd(start):
    s = start()
    s.send("METRICS", {"open": 1}, key=None)
    s.p.wait(30)
    assert s.p.status == 1 and "metrics without a key" in s.p.log()
