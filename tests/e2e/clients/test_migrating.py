"""What docs/MIGRATING.md says of the two older systems, as far as no snippet of it shows that already."""

import re

import pytest
import requests
from harness import KEY, ROOT, check_error

PAGE = (ROOT / "docs/MIGRATING.md").read_text()
OTHERS = re.findall(r"_[A-Z_]+", re.search(r"^\| `AGENTBOX_DEFAULT_TIMEOUT_SECONDS`.*accepted with a warning", PAGE, re.M)[0].split("|")[1])


def said(line):
    assert line in PAGE, f"MIGRATING.md no longer says: {line}"


@pytest.mark.parametrize("method, path", [("POST", "/v1/run"), ("GET", "/health")])
def test_routes_of_one_shot_runs_are_not_there_and_the_page_says_so(server, method, path):
    said(f"| `{method} {path}` | no: `404`")
    check_error(server.api.ask(method, path, json={"code": "print(1)"} if method == "POST" else None), 404)


def test_key_in_the_address_works(server):
    said("`http://any:KEY@host:8080`, for clients that cannot send one | yes")
    url = server.url.replace("://", f"://any:{KEY}@")
    assert requests.get(url + "/v1/sandboxes", timeout=10).status_code == 200
    assert requests.get(url.replace(KEY, "x" * 20) + "/v1/sandboxes", timeout=10).status_code == 401


def test_settings_of_agentbox_with_a_meaning_here_have_it(own):
    said("`AGENTBOX_HOST`, `AGENTBOX_PORT`, `AGENTBOX_LOG_LEVEL`, `AGENTBOX_DOCKER_IMAGE` | yes")
    s = own(start=False)
    port = s.settings.pop("PORT")
    old = {"HOST": "127.0.0.1", "PORT": port, "LOG_LEVEL": "INFO", "DOCKER_IMAGE": "not/there:1", "SANDBOX_BACKEND": "docker"}
    with_names(s, old)
    s.start()
    assert "not/there:1" in check_error(s.api.post_sandbox(), 400, 502)
    assert "warning: AGENTBOX" not in s.tail()


def test_other_settings_of_agentbox_are_let_pass_with_a_warning(own):
    assert len(OTHERS) == 6
    names = ["DEFAULT_TIMEOUT_SECONDS", *(n.removeprefix("_") for n in OTHERS if n != "_DEFAULT_TIMEOUT_SECONDS"), "SNAPSHOT_DIR"]
    s = own(start=False)
    with_names(s, dict.fromkeys(names, "30"))
    s.start()
    for n in names:
        assert f"AGENTBOX_{n.removeprefix('AGENTBOX_')}: has no effect" in s.tail(8000), n


@pytest.mark.parametrize("backend", ["subprocess", "unrestricted"])
def test_backends_without_a_container_end_the_start(own, backend):
    said("`subprocess` and `unrestricted` end the start")
    s = own(start=False)
    with_names(s, {"SANDBOX_BACKEND": backend})
    s.launch()
    assert s.process.wait(10) == 2 and "AGENTBOX_SANDBOX_BACKEND" in s.tail()
    s.process = None
    s.remove()


@pytest.mark.parametrize(
    "setting, value, line",
    [
        ("MAX_SANDBOXS", "5", "ends the start: a typing mistake must not weaken a policy"),
        ("HOST", "0.0.0.0", "needs `AGENT_SANDBOX_INSECURE_PLAINTEXT=true` and a proxy in front that ends TLS"),
    ],
)
def test_settings_that_were_taken_and_now_end_the_start(own, setting, value, line):
    said(line)
    s = own(start=False, **{setting: value})
    s.launch()
    assert s.process.wait(10) == 2 and f"AGENT_SANDBOX_{setting}" in s.tail()
    s.process = None
    s.remove()


def test_egress_lists_are_refused_and_not_ignored(server):
    said("| `egress_allowlist` | no: anything but none at all is refused")
    check_error(server.api.post_sandbox({"egress_allowlist": ["example.com"]}), 400)


def with_names(s, old):
    """The server's environment, with settings under the names of the other system."""
    usual = s.environment
    s.environment = lambda: usual() | {"AGENTBOX_" + k: str(v) for k, v in old.items()}
