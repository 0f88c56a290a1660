"""What docs/MIGRATING.md says of the two older systems, as far as no snippet of it shows that already."""

import re

import pytest
import requests
from harness import KEY, ROOT, check_error

PAGE = (ROOT / "docs/MIGRATING.md").read_text()


def said(line):
    assert line in PAGE, f"MIGRATING.md no longer says: {line}"


def test_key_in_the_address_works(server):
    said("export AGENTBOX_URL=http://any:$(cat ~/.config/agent-sandbox/key)@127.0.0.1:8080")
    url = server.url.replace("://", f"://any:{KEY}@")
    assert requests.get(url + "/v1/sandboxes", timeout=10).status_code == 200
    assert requests.get(url.replace(KEY, "x" * 20) + "/v1/sandboxes", timeout=10).status_code == 401


NAMES = {
    "HOST": "HOST", "PORT": "PORT", "LOG_LEVEL": "LOG_LEVEL", "DOCKER_IMAGE": "DEFAULT_IMAGE", "EGRESS_ALLOWLIST": "EGRESS_ALLOWLIST",
    "DEFAULT_TIMEOUT_SECONDS": "RUN_TIMEOUT_SECONDS", "DEFAULT_MEMORY_MB": "RUN_MEMORY_MB", "MAX_MEMORY_MB": "RUN_MAX_MEMORY_MB",
    "MAX_OUTPUT_BYTES": "RUN_OUTPUT_BYTES", "DOCKER_NODE_IMAGE": "NODE_IMAGE",
}  # fmt: skip


def test_page_names_each_setting_of_agentbox_with_the_one_that_it_is_here():
    rows = re.findall(r"^\| (`AGENTBOX_HOST`.*|`AGENTBOX_DEFAULT_TIMEOUT.*) \| \| the same, as (.*) \|$", PAGE, re.M)
    theirs = [n.removeprefix("AGENTBOX_").lstrip("_") for row, _ in rows for n in re.findall(r"`(\w+)`", row)]
    ours = [n.removeprefix("AGENT_SANDBOX_").lstrip("_") for _, row in rows for n in re.findall(r"`(\w+)`", row)]
    assert dict(zip(theirs, ours, strict=True)) == NAMES


@pytest.mark.gate
def test_settings_of_agentbox_have_their_meaning(own):
    s = own(start=False)
    port = s.settings.pop("PORT")
    old = {"HOST": "127.0.0.1", "PORT": port, "LOG_LEVEL": "INFO", "DOCKER_IMAGE": "not/there:1", "SANDBOX_BACKEND": "docker"}
    old |= {"DEFAULT_TIMEOUT_SECONDS": 1, "DOCKER_NODE_IMAGE": "not/there:2", "MAX_OUTPUT_BYTES": 1024, "DEFAULT_MEMORY_MB": 64}
    with_names(s, old)
    s.start()
    assert "not/there:1" in check_error(s.api.post_sandbox(), 400, 502)
    assert "not/there:2" in s.api.ask("POST", "/v1/run", json={"code": "1", "language": "node"}).json()["detail"]
    assert "warning: AGENTBOX" not in s.tail()


def test_limits_of_runs_under_the_names_of_agentbox(own):
    s = own(start=False)
    with_names(s, {"DEFAULT_TIMEOUT_SECONDS": 2, "DEFAULT_MEMORY_MB": 64, "MAX_MEMORY_MB": 96, "MAX_OUTPUT_BYTES": 1024})
    s.start()

    def run(code, **limits):
        return s.api.ask("POST", "/v1/run", json={"code": code, "limits": limits})

    result = run("print('x' * 2000)").json()
    assert result["limits_applied"] == {"timeout_seconds": 2, "memory_mb": 64} and len(result["stdout"]) == 1024
    assert run("1", memory_mb=8192).json()["limits_applied"]["memory_mb"] == 96
    assert run("import time; time.sleep(20)").status_code == 408


def test_own_name_of_a_setting_counts_more(own):
    said("| both names of one setting | | the one with `AGENT_SANDBOX_` counts |")
    s = own(start=False, RUN_TIMEOUT_SECONDS=9)
    with_names(s, {"DEFAULT_TIMEOUT_SECONDS": 2})
    s.start()
    assert s.api.ask("POST", "/v1/run", json={"code": "1"}).json()["limits_applied"]["timeout_seconds"] == 9


def test_snapshot_folder_is_let_pass_with_a_warning(own):
    said("| `AGENTBOX_SNAPSHOT_DIR` | | accepted with a warning, without effect |")
    s = own(start=False)
    with_names(s, {"SNAPSHOT_DIR": "/tmp/there"})
    s.start()
    assert "AGENTBOX_SNAPSHOT_DIR: has no effect" in s.tail(8000)


@pytest.mark.parametrize("backend", ["subprocess", "unrestricted"])
def test_backends_without_a_container_end_the_start(own, backend):
    said("`subprocess` and `unrestricted` end the start")
    s = own(start=False)
    with_names(s, {"SANDBOX_BACKEND": backend})
    s.launch()
    assert s.process.wait(30) == 2 and "AGENTBOX_SANDBOX_BACKEND" in s.tail()
    s.process = None
    s.remove()


@pytest.mark.parametrize(
    "setting, value, line",
    [
        ("MAX_SANDBOXS", "5", "ends the start: a typing mistake must not weaken a policy"),
        pytest.param(
            "HOST", "0.0.0.0", "or `AGENT_SANDBOX_INSECURE_PLAINTEXT=true` and a proxy in front that ends TLS", marks=pytest.mark.bare
        ),
    ],
)
def test_settings_that_were_taken_and_now_end_the_start(own, setting, value, line):
    said(line)
    s = own(start=False, **{setting: value})
    s.launch()
    assert s.process.wait(30) == 2 and f"AGENT_SANDBOX_{setting}" in s.tail()
    s.process = None
    s.remove()


def with_names(s, old):
    """The server's environment, with settings under the names of the other system."""
    usual = s.environment
    s.environment = lambda: usual() | {"AGENTBOX_" + k: str(v) for k, v in old.items()}
