"""The list of what the programs are made of: by the rules of CycloneDX, and true."""

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest
from conftest import built
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def text():
    return built("sbom/*.cdx.json").read_text()


@pytest.fixture(scope="module")
def bom(text):
    return json.loads(text)


def test_list_is_by_the_schema_of_its_format(text):
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    assert wrong is None, str(wrong)[:2000]


def test_every_reference_leads_to_something_and_nothing_is_there_twice(bom):
    refs = [c["bom-ref"] for c in bom["components"]] + [bom["metadata"]["component"]["bom-ref"]]
    assert len(refs) == len(set(refs))
    assert {d["ref"] for d in bom["dependencies"]} == set(refs)
    assert {r for d in bom["dependencies"] for r in d["dependsOn"]} <= set(refs)


def test_every_program_is_in_it_with_its_digest(bom):
    mine = {c["name"]: c for c in bom["components"] if c["type"] == "application"}
    assert {"agent-sandbox", "agent-sandbox-mcp", "agent-sandboxd", "apid", "managerd", "dockerd-proxy", "sandbox-init"} <= set(mine)
    for name, c in mine.items():
        assert c["hashes"][0]["content"] == hashlib.sha256((ROOT / "build" / name).read_bytes()).hexdigest(), name


def test_every_library_that_is_linked_is_in_it_with_the_version_that_is_installed(bom):
    """Those of docs/DEPENDENCIES.md, shared and static."""
    versions = {c["name"]: c["version"] for c in bom["components"] if c["type"] == "library" and "version" in c}
    for name in (
        "libbsd0",
        "libcurl4",
        "libssl3",
        "libjansson4",
        "libevent-core-2.1-7",
        "libc-ares2",
        "libzstd1",
        "libarchive-dev",
        "libc6",
    ):
        said = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True, check=True).stdout
        assert versions[name] == said, name
    own = {d["ref"]: d["dependsOn"] for d in bom["dependencies"]}
    keyd = next(r for r in own if r.endswith("#keyd"))
    assert {re.search(r"debian/([^@]+)@", r)[1] for r in own[keyd]} >= {"libssl3", "libbsd0", "libc6"}


def test_the_same_programs_give_the_same_list(text, tmp_path):
    subprocess.run([ROOT / "packaging/sbom", tmp_path], check=True, capture_output=True)
    assert next(tmp_path.iterdir()).read_text() == text
