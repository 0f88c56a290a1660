"""The Debian package's postrm, with another place for its data and an engine of paper: what a purge takes away."""

import json
import os
import subprocess

import pytest
from layout import ROOT

UUID = "0b5a7a52-2f0c-4d0e-9c1e-6a6f3a1b2c3d"
DOCKER = """#!/bin/sh
echo "$*" >>"$TOLD"
case $1 in ps) echo c1 ;; volume) [ "$2" != ls ] || echo v1 ;; esac
"""


@pytest.fixture
def purge(tmp_path):
    """purge(): what it said, and what it asked the engine for. It ends well, and nothing of its own folders is left."""

    def run():
        script = (ROOT / "debian/agent-sandbox.postrm").read_text()
        for path, own in (("/var/lib/agent-sandbox", "data"), ("/etc/agent-sandbox", "etc")):
            assert script.count(path) == 1
            script = script.replace(path, str(tmp_path / own))
        told = tmp_path / "told"
        told.write_text("")
        env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TOLD": str(told)}
        p = subprocess.run(["sh", "-c", script, "postrm", "purge"], env=env, stdin=-3, capture_output=True, text=True, timeout=60)
        assert p.returncode == 0 and not (tmp_path / "data").exists() and not (tmp_path / "etc").exists(), p
        return p.stderr, told.read_text().splitlines()

    for folder in ("bin", "data", "etc"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin/docker").write_text(DOCKER)
    (tmp_path / "bin/docker").chmod(0o755)
    return run


def test_purge_takes_containers_and_volumes_of_the_data_directory_and_nothing_else_of_the_engine(purge, tmp_path):
    (tmp_path / "data/instance.json").write_text(json.dumps({"version": 1, "uuid": UUID}))
    label = f"--filter label=agent-sandbox.instance={UUID}"
    assert purge() == ("", [f"ps -aq --no-trunc {label}", "rm -fv c1", f"volume ls -q {label}", "volume rm v1"])


@pytest.mark.parametrize("kind", ["fifo", "link", "missing"])
def test_purge_reads_no_identity_from_what_is_no_regular_file(purge, tmp_path, kind):
    path = tmp_path / "data/instance.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        (tmp_path / "other").write_text(json.dumps({"uuid": UUID}))
        path.symlink_to(tmp_path / "other")
    assert purge() == ("", [])


def test_purge_reads_no_more_than_the_beginning_of_it(purge, tmp_path):
    path = tmp_path / "data/instance.json"
    path.write_bytes(b" " * 5000 + json.dumps({"uuid": UUID}).encode())
    os.truncate(path, 1 << 40)
    assert purge() == ("", [])
