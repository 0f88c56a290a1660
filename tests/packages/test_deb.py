"""The Debian package: what is in it, with which owners and modes; its unit's box; its scripts' words. What it does: tests/vm."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT = "lib/systemd/system/agent-sandbox.service"
PROGRAMS = {"agent-sandbox-cp", "agent-sandboxd", "apid", "dockerd-proxy", "egressd", "keyd", "managerd", "sessiond"}


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


@pytest.fixture(scope="module")
def listing(deb):
    """Path: (mode, owner)."""
    lines = [line.split(None, 5) for line in run("dpkg-deb", "-c", deb).splitlines()]
    return {path.removeprefix("./"): (mode, owner) for mode, owner, _, _, _, path in lines}


@pytest.fixture(scope="module")
def root(deb, tmp_path_factory):
    """The package, unpacked."""
    folder = tmp_path_factory.mktemp("deb")
    run("dpkg-deb", "-R", deb, folder)
    return folder


def test_everything_belongs_to_root_and_nothing_is_writable_by_others_or_set_uid(listing):
    assert {owner for _, owner in listing.values()} == {"root/root"}
    for path, (mode, _) in listing.items():
        assert mode[5] != "w" and mode[8] != "w" and not set("sStT") & set(mode), path


def test_programs_are_there_and_no_others(listing):
    programs = {p for p, (mode, _) in listing.items() if mode.startswith("-") and "x" in mode}
    assert programs == {"usr/bin/agent-sandbox", "usr/bin/agent-sandbox-mcp"} | {"usr/libexec/agent-sandbox/" + p for p in PROGRAMS}


def test_what_an_operator_needs_is_where_debian_has_it(listing):
    for path in (
        UNIT,
        "lib/systemd/system/agent-sandbox-nft.service",
        "usr/lib/sysusers.d/agent-sandbox.conf",
        "usr/lib/tmpfiles.d/agent-sandbox.conf",
        "etc/agent-sandbox/agent-sandbox.nft",
        "etc/apparmor.d/agent-sandbox",
        "usr/share/man/man1/agent-sandbox.1.gz",
        "usr/share/man/man1/agent-sandbox-mcp.1.gz",
        "usr/share/man/man8/agent-sandbox.8.gz",
        "usr/share/bash-completion/completions/agent-sandbox",
        "usr/share/zsh/site-functions/_agent-sandbox",
        "usr/share/fish/vendor_completions.d/agent-sandbox.fish",
        "usr/share/doc/agent-sandbox/copyright",
    ):
        assert path in listing, path


def test_configuration_is_for_root_and_its_changes_are_kept(listing, root):
    assert listing["etc/agent-sandbox/agent-sandbox.conf"] == ("-rw-r-----", "root/root")
    kept = (root / "DEBIAN/conffiles").read_text().split()
    assert set(kept) == {"/" + p for p, (mode, _) in listing.items() if p.startswith("etc/") and mode.startswith("-")}


def test_configuration_is_one_that_the_server_takes(root, tmp_path):
    """But for the key file, which is made by the first key."""
    text = (root / "etc/agent-sandbox/agent-sandbox.conf").read_text()
    assert "AGENT_SANDBOX_KEYS_FILE=/etc/agent-sandbox/keys\n" in text and "AGENT_SANDBOX_DATA_DIR=/var/lib/agent-sandbox\n" in text
    assert "API_KEYS" not in text
    conf = tmp_path / "conf"
    conf.write_text(text.replace("/etc/agent-sandbox/keys", f"{tmp_path}/keys").replace("/var/lib/agent-sandbox", f"{tmp_path}/data"))
    p = subprocess.run(
        [root / "usr/libexec/agent-sandbox/agent-sandboxd", "-f", conf, "--port", "0"], capture_output=True, text=True, timeout=60
    )
    assert p.returncode == 2 and f"agent-sandbox keygen --name NAME --file {tmp_path}/keys" in p.stderr


def test_debug_symbols_and_paths_of_the_build_are_not_in_it(root):
    for f in [*(root / "usr/bin").iterdir(), *(root / "usr/libexec/agent-sandbox").iterdir()]:
        assert ".debug_info" not in run("readelf", "-SW", f), f.name
        assert str(ROOT / "build").encode() not in f.read_bytes(), f.name


def test_programs_are_hardened_as_the_makefile_says(root):
    for f in [*(root / "usr/bin").iterdir(), *(root / "usr/libexec/agent-sandbox").iterdir()]:
        said = run("readelf", "-hldW", f)
        assert "DYN (Position-Independent" in said and "GNU_RELRO" in said and "NOW" in said, f.name
        assert re.search(r"GNU_STACK.* RW ", said), f.name


def test_lintian_finds_nothing(deb):
    assert run("lintian", "--fail-on", "error,warning", "--profile", "debian", "--allow-root", deb) == ""


def test_version_is_that_of_the_tree(deb):
    version = (ROOT / "VERSION").read_text().strip()
    assert run("dpkg-deb", "-f", deb, "Version").strip() == version
    assert run("dpkg-parsechangelog", "-l", ROOT / "debian/changelog", "-S", "Version").strip() == version


def test_apparmor_profile_compiles(root):
    run("apparmor_parser", "-QTK", root / "etc/apparmor.d/agent-sandbox")


def security(unit):
    said = run("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
    crosses = set(re.findall(r"^✗ (\S+)", said, re.M))
    return crosses, float(re.search(r"exposure level for .*: ([0-9.]+)", said)[1])


def test_exposure_of_the_unit_is_at_most_3_5(root):
    assert security(root / UNIT)[1] <= 3.5


def test_each_mark_that_is_left_is_explained_and_no_other(root):
    page = (ROOT / "docs/OPERATING.md").read_text().split("## The unit's sandbox")[1].split("\n## ")[0].replace("\\|", "|")
    assert set(re.findall(r"^\| `([^`]+)` \|", page, re.M)) == security(root / UNIT)[0]


def test_units_have_no_word_that_systemd_does_not_know(root, tmp_path):
    """Nor has the page's example; what it starts is looked for where the package is unpacked."""
    unit = tmp_path / "agent-sandbox.service"
    example = re.search(r"```ini\n(.*?)```", (ROOT / "docs/OPERATING.md").read_text().split("## The unit's sandbox")[1], re.S)[1]
    unit.write_text((root / UNIT).read_text().replace("=/usr/libexec", f"={root}/usr/libexec") + example)
    shutil.copy(root / "lib/systemd/system/agent-sandbox-nft.service", tmp_path)
    p = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    said = [line for line in p.stderr.splitlines() if "agent-sandbox" in line]
    assert not said, said


def test_users_of_the_package_are_those_that_the_server_wants(root):
    names = set(re.findall(r'"(_as-[a-z]+)"', (ROOT / "agent-sandboxd/paths.c").read_text()))
    assert set(re.findall(r"^u (\S+)", (root / "usr/lib/sysusers.d/agent-sandbox.conf").read_text(), re.M)) == names
    run("systemd-sysusers", "--dry-run", "--root", root, "agent-sandbox.conf")
