"""The manual, docs/CONFIG.md and the samples agree with the configuration table."""

import ipaddress
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
KEYS = re.findall(r"^\tX\((\w+),", (ROOT / "proto/config.h").read_text(), re.M)


def test_config_pages_are_not_stale():
    p = subprocess.run([ROOT / "tools/config-doc", "--check"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr


def test_a_changed_table_makes_the_pages_stale(tmp_path):
    for name in ("proto/config.h", "tools/config-doc", "docs/CONFIG.md", "docs/agent-sandbox.8"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    header = tmp_path / "proto/config.h"
    header.write_text(header.read_text().replace('"8080"', '"8081"'))
    p = subprocess.run([tmp_path / "tools/config-doc", "--check"], capture_output=True, text=True)
    assert p.returncode == 1 and "docs/CONFIG.md" in p.stdout and "docs/agent-sandbox.8" in p.stdout


def test_every_setting_is_in_the_manual_and_in_config_md():
    assert len(KEYS) > 30
    manual, page = (ROOT / "docs/agent-sandbox.8").read_text(), (ROOT / "docs/CONFIG.md").read_text()
    for key in KEYS:
        assert f".It Ev AGENT_SANDBOX_{key}\n" in manual and f"`AGENT_SANDBOX_{key}`" in page, key


@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_manual_is_clean():
    p = subprocess.run(["mandoc", "-T", "lint", ROOT / "docs/agent-sandbox.8"], capture_output=True, text=True)
    # The pages that it refers to are beside it, not installed.
    said = [line for line in p.stdout.splitlines() if "referenced manual not found: Xr agent-sandbox" not in line]
    assert said == [] and p.returncode in (0, 1), p.stdout


def test_sample_configuration_has_only_names_that_exist():
    text = (ROOT / "etc/agent-sandbox.conf").read_text()
    names = re.findall(r"^#?AGENT_SANDBOX_(\w+)=", text, re.M)
    assert len(names) > 10 and set(names) <= set(KEYS)


def test_users_are_the_same_everywhere():
    wanted = {"_as-api", "_as-manager", "_as-docker", "_as-egress", "_as-key", "_as-session"}
    for name in ("etc/agent-sandbox.sysusers", "etc/create-users.sh", "agent-sandboxd/paths.c", "agent-sandbox/doctor.c"):
        assert set(re.findall(r"_as-\w+", (ROOT / name).read_text())) == wanted, name


@pytest.mark.skipif(not shutil.which("nft"), reason="nft is not installed")
def test_packet_filter_rules_load_twice():
    rules = ROOT / "etc/agent-sandbox.nft"
    script = 'nft -f "$0" && nft -f "$0" && nft list table inet agent_sandbox'
    p = subprocess.run(["unshare", "-n", "sh", "-c", script, rules], capture_output=True, text=True)
    if "Operation not permitted" in p.stderr or "Protocol not supported" in p.stderr:
        pytest.skip("this kernel or user cannot load rules")
    assert p.returncode == 0, p.stderr
    assert p.stdout.count('iifname "agent-sandbox0"') == p.stdout.count("iifname") == 8


def test_packet_filter_drops_all_that_egressd_takes_for_not_public():
    rules = (ROOT / "etc/agent-sandbox.nft").read_text()
    sets = {v: re.search(rf"set inside{v} .*?elements = {{(.*?)}}", rules, re.S)[1].split(",") for v in (4, 6)}
    dropped = {v: [ipaddress.ip_network(text.strip()) for text in texts] for v, texts in sets.items()}
    named = re.findall(r'^    {V([46])\(.*?"([^"]+)",', (ROOT / "common/egress_range.c").read_text(), re.M)
    assert len(named) > 40
    for version, text in named:
        net = ipaddress.ip_network(text)
        assert any(net.subnet_of(wide) for wide in dropped[int(version)]), text


def test_every_test_that_the_threat_model_names_exists():
    named = re.findall(r"`((?:unit|proc|e2e)/[\w/]+\.py)::(\w+)`", (ROOT / "docs/THREAT-MODEL.md").read_text())
    assert len(named) > 50
    missing = [f"{file}::{name}" for file, name in named if not re.search(rf"^def {name}\(", (ROOT / "tests" / file).read_text(), re.M)]
    assert missing == []


def files_of(text):
    found = [set(ROOT.glob(pattern)) for pattern in re.findall(r"`([^`]+)`", text)]
    assert all(found), text
    return set().union(*found)


def audit_guide():
    """The rows of its two tables: minutes, files, lines."""
    tables = (ROOT / "docs/AUDIT-GUIDE.md").read_text().split("## The day after")
    assert len(tables) == 2
    for table in tables:
        rows = re.findall(r"^\| (\d+) \| (`[^|]*`) \| ([\d,]+) \|", table, re.M)
        read = [(int(minutes), what.partition(" but "), int(said.replace(",", ""))) for minutes, what, said in rows]
        yield [(minutes, files_of(what) - files_of(but), said) for minutes, (what, _, but), said in read]


def test_lines_of_the_audit_guide_are_true_to_a_tenth():
    for minutes, files, said in (row for table in audit_guide() for row in table):
        lines = sum(len(f.read_text().splitlines()) for f in files)
        assert abs(lines - said) <= lines / 10, (minutes, sorted(files), lines)


def test_audit_guide_takes_two_hours_at_forty_lines_a_minute():
    first, _ = tables = list(audit_guide())
    assert sum(minutes for minutes, _, _ in first) == 120
    for minutes, files, said in (row for table in tables for row in table):
        assert said <= minutes * 44, (sorted(files), said)


def test_audit_guide_leaves_out_no_file_of_the_programs_that_it_has_whole():
    read = set().union(*(files for table in audit_guide() for _, files, _ in table))
    programs = ("agent-sandboxd", "dockerd-proxy", "keyd", "sessiond", "egressd")
    assert {f for name in programs for f in ROOT.glob(f"{name}/*.c")} - read == set()
