"""The package on a machine of its own, from its installation to its purge. One story: the tests stand on those before them."""

import json
import os
import shutil
import stat
import subprocess
import time

import pytest

INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends --allow-downgrades"
CONFIGURE = """
set -e
cd /etc/agent-sandbox
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj '/CN=an authority' \\
	-addext keyUsage=critical,keyCertSign -keyout /root/ca.key -out /mnt/ca.pem 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out /root/server.csr 2>/dev/null
printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\nextendedKeyUsage=serverAuth\\n' >/root/names
openssl x509 -req -days 30 -in /root/server.csr -CA /mnt/ca.pem -CAkey /root/ca.key -CAcreateserial -extfile /root/names -out server.pem 2>/dev/null
chmod 600 server.key
cat >>agent-sandbox.conf <<'END'
AGENT_SANDBOX_HOST=0.0.0.0
AGENT_SANDBOX_PORT=8443
AGENT_SANDBOX_TLS_CERT=/etc/agent-sandbox/server.pem
AGENT_SANDBOX_TLS_KEY=/etc/agent-sandbox/server.key
AGENT_SANDBOX_DEFAULT_IMAGE=tiny:1
AGENT_SANDBOX_POOL=0
END
docker import /mnt/tiny.tar tiny:1 >/dev/null
umask 077
agent-sandbox keygen --name first --scopes read,exec,files,manage,admin --file /etc/agent-sandbox/keys >/mnt/key
"""
SERVES = "curl -sf --cacert /mnt/ca.pem https://127.0.0.1:8443/healthz"
LOCAL = "export AGENT_SANDBOX_URL=https://127.0.0.1:8443 AGENT_SANDBOX_API_KEY_FILE=/mnt/key AGENT_SANDBOX_CA_FILE=/mnt/ca.pem\n"
PARENT = "systemctl show -p MainPID --value agent-sandbox"


@pytest.fixture(scope="module")
def lasting(client):
    """A sandbox that lives through all that is done to its server: with a file, and with a job in it that counts."""
    box = client("create", "--timeout", "1d", "--memory", "64m").strip()
    client("exec", box, "echo kept >file; echo >/tmp/ticks; setsid sh -c 'while sleep 1; do echo x >>/tmp/ticks; done' >/dev/null 2>&1 &")
    return box


@pytest.fixture
def box(client):
    """One that a test may spoil."""
    made = client("create", "--timeout", "1h", "--memory", "64m", "--cpus", "0.5", "--pids", "40").strip()
    yield made
    client("rm", made)


def ask(client, box, command, *options):
    return json.loads(client.run("exec", "--json", *options, box, command).stdout)


def works(client, box, jobs=True):
    """The sandbox is the one that was made, and what ran in it still does."""
    assert client("exec", box, "cat file") == "kept\n"
    if jobs:
        ticks = int(client("exec", box, "wc -l </tmp/ticks"))
        end = time.monotonic() + 20 * client.vm.scale
        while int(client("exec", box, "wc -l </tmp/ticks")) <= ticks:
            assert time.monotonic() < end, "its job does not run any more"
            time.sleep(0.5)


def cgroup_of(vm, box):
    """The folder of the sandbox's limits, in the machine."""
    pid = vm.sh(f"docker inspect -f '{{{{.State.Pid}}}}' $(docker ps -q --filter name={box})").strip()
    return pid, vm.sh(f"sed -n 's|^0::|/sys/fs/cgroup|p' /proc/{pid}/cgroup").strip()


@pytest.mark.step
def test_machine_has_cgroup_v2_systemd_and_apparmor(vm):
    assert vm.sh("stat -fc %T /sys/fs/cgroup").strip() == "cgroup2fs"
    assert vm.sh("cat /proc/1/comm").strip() == "systemd"
    assert vm.sh("cat /sys/module/apparmor/parameters/enabled").strip() == "Y"
    vm.until("docker info >/dev/null 2>&1", 60)
    assert vm.sh("docker info -f '{{.CgroupDriver}} {{.CgroupVersion}}'").split() == ["systemd", "2"]


@pytest.mark.step
def test_package_installs_with_what_it_depends_on(vm):
    vm.sh(INSTALL + " /mnt/agent-sandbox.deb nftables", 120)
    assert vm.sh("dpkg-query -W -f '${db:Status-Status}' agent-sandbox") == "installed"
    assert vm.run("dpkg --audit").out == ""
    assert vm.sh("systemctl is-enabled agent-sandbox").strip() == "enabled"
    for user in ("_as-api", "_as-manager", "_as-docker", "_as-egress", "_as-key", "_as-session"):
        vm.sh(f"getent passwd {user}")
    assert vm.sh("stat -c %a /etc/agent-sandbox/agent-sandbox.conf").strip() in ("600", "640")


def test_service_without_a_key_does_not_start_and_says_how_to_make_one(vm):
    vm.run("systemctl start agent-sandbox", 60)
    vm.until("! systemctl -q is-active agent-sandbox && journalctl -u agent-sandbox | grep -q keygen")
    assert vm.run("systemctl is-failed agent-sandbox").out.strip() == "failed", "it is not tried again and again"
    vm.sh("systemctl reset-failed agent-sandbox")


@pytest.mark.step
def test_one_file_is_edited_and_the_service_starts(vm):
    vm.sh(CONFIGURE, 60)
    vm.sh("systemctl start agent-sandbox", 60)
    assert vm.sh("systemctl is-active agent-sandbox").strip() == "active"
    assert json.loads(vm.until(SERVES))["status"] == "ok"


@pytest.mark.step
def test_remote_client_with_a_key_and_a_ca_file_works(vm, client):
    box = client("create").strip()
    assert client("exec", box, "cat; id -u", stdin=b"over the network\n") == "over the network\n1000\n"
    (vm.dir / "up").write_bytes(os.urandom(300_000))
    client("cp", "up", f"{box}:up")
    client("cp", f"{box}:up", "down")
    assert (vm.dir / "down").read_bytes() == (vm.dir / "up").read_bytes()
    snapshot = client("snapshot", box).strip()
    client("exec", box, "rm up")
    client("rollback", box, snapshot)
    assert client("exec", box, "ls") == "up\n"
    client("rm", box, snapshot)


def test_remote_client_without_the_ca_file_or_with_another_key_is_refused(client):
    assert client.run("ls", AGENT_SANDBOX_CA_FILE="/etc/ssl/certs/ca-certificates.crt").returncode == 5
    other = client.vm.dir / "other"
    other.write_text("as_" + "0" * 43 + "\n")
    other.chmod(0o600)
    assert client.run("ls", AGENT_SANDBOX_API_KEY_FILE=str(other)).returncode == 4


def test_confinement_of_all_programs_is_complete(vm):
    assert json.loads(vm.sh(SERVES))["confinement"] == "full"
    got = vm.sh(
        f"for p in $({PARENT}) $(pgrep -P $({PARENT})); do"
        " echo $(cat /proc/$p/comm) $(stat -c %U /proc/$p) $(sed -n 's/^Seccomp:.//p; s/^NoNewPrivs:.//p' /proc/$p/status); done"
    )
    programs = [line.split() for line in got.splitlines()]
    assert len({user for _, user, *_ in programs}) >= 6, got
    assert all(sorted(flags) == ["1", "2"] for _, _, *flags in programs), got


def test_doctor_finds_nothing_that_would_not_work(vm):
    said = vm.run("agent-sandbox doctor -f /etc/agent-sandbox/agent-sandbox.conf", 60)
    assert said.status == 0, said


def test_selftest_passes(vm):
    said = vm.run(LOCAL + "agent-sandbox selftest --offline", 300)
    assert said.status == 0, said


def test_apparmor_holds_around_sandboxes_and_around_the_service(vm, box):
    pid, _ = cgroup_of(vm, box)
    assert vm.sh(f"cat /proc/{pid}/attr/current").strip() == "docker-default (enforce)"
    assert vm.sh(f"cat /proc/$({PARENT})/attr/current").strip() == "agent-sandbox (enforce)"
    refused = vm.run("journalctl -k --no-pager | grep 'apparmor=\"DENIED\"' | grep 'profile=\"agent-sandbox'").out
    assert refused == "", "what the programs do, the profile allows"


def test_command_out_of_memory_is_told_from_one_that_was_killed(client, box):
    got = ask(client, box, "dd if=/dev/zero of=/dev/null bs=300M count=1")
    assert got["exit_code"] == 137 and got["oom_killed"] is True, got
    got = ask(client, box, "kill -9 $$")
    assert got["exit_code"] == 137 and got["oom_killed"] is False, got
    got = ask(client, box, "dd if=/dev/zero of=/dev/null bs=300M count=1; echo after")
    assert got["stdout"] == "after\n" and got["exit_code"] == 0 and got["oom_killed"] is True, got
    assert ask(client, box, "true")["oom_killed"] is False
    assert json.loads(client("show", "--json", box))["status"] == "running"


def test_limits_are_those_of_the_sandbox_cgroup(vm, client, box):
    _, folder = cgroup_of(vm, box)
    limits = vm.sh(f"cd {folder}; cat memory.max memory.swap.max cpu.max pids.max").split()
    assert limits == [str(64 << 20), "0", "50000", "100000", "40"], limits


def test_processor_limit_holds(client, box):
    """Two loops for four seconds: half a processor is two seconds of its time."""
    loop = "timeout 4 sh -c 'while :; do :; done'"
    used = ask(client, box, f"{loop} & {loop} & wait")["usage"]["cpu_ms"]
    assert 1000 < used < 3000, used


def test_process_limit_holds_and_leaves_the_sandbox_usable(client, box):
    client.run("exec", "--timeout", "3", box, "b() { b | b & }; (b) & while :; do :; done")
    assert client("exec", box, "echo ok") == "ok\n"


def test_reload_keeps_sandboxes_and_the_process(vm, client, lasting):
    before = vm.sh(PARENT)
    vm.sh("systemctl reload agent-sandbox")
    works(client, lasting)
    assert vm.sh(PARENT) == before and vm.sh("systemctl is-active agent-sandbox").strip() == "active"


def test_restart_keeps_sandboxes_and_what_runs_in_them(vm, client, lasting):
    vm.sh("systemctl restart agent-sandbox", 60)
    vm.until(SERVES)
    works(client, lasting)


def test_killed_server_is_started_again_by_systemd_and_sandboxes_live_on(vm, client, lasting):
    before = vm.sh(PARENT).strip()
    vm.sh(f"kill -9 {before}")
    vm.until(f"p=$({PARENT}); [ $p != 0 ] && [ $p != {before} ]; {SERVES}", 60)
    works(client, lasting)


def test_server_that_hangs_is_ended_by_the_watchdog_and_started_again(vm, client, lasting):
    before = vm.sh(PARENT).strip()
    vm.sh(f"kill -STOP {before}")
    vm.until(f"p=$({PARENT}); [ $p != 0 ] && [ $p != {before} ] && {SERVES}", 240)
    works(client, lasting)


def repacked(package, folder, version):
    """The same package under another version: what matters here is what its scripts and systemd do."""
    subprocess.run(["dpkg-deb", "-R", package, folder], check=True)
    control = folder / "DEBIAN/control"
    text = control.read_text()
    lines = [f"Version: {version}" if line.startswith("Version:") else line for line in text.splitlines()]
    control.write_text("\n".join(lines) + "\n")
    assert stat.S_IMODE((folder / "DEBIAN").stat().st_mode) == 0o755
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", folder, folder.with_suffix(".deb")], check=True)
    return folder.with_suffix(".deb")


@pytest.mark.step
def test_upgrade_keeps_sandboxes_and_the_edited_configuration(vm, client, lasting, package, tmp_path):
    before = vm.sh(PARENT)
    shutil.copy(repacked(package, tmp_path / "next", "99.1"), vm.share / "next.deb")
    vm.sh(INSTALL + " /mnt/next.deb", 120)
    assert vm.sh("dpkg-query -W -f '${Version}' agent-sandbox") == "99.1"
    vm.until(SERVES)
    assert vm.sh(PARENT) != before, "the new programs run"
    works(client, lasting)
    vm.sh("grep -q '^AGENT_SANDBOX_PORT=8443' /etc/agent-sandbox/agent-sandbox.conf")


@pytest.mark.step
def test_power_cut_keeps_workspaces_and_the_service_is_there_after_the_boot(vm, client, lasting):
    vm.sh("sync")
    vm.power_cut()
    vm.until(SERVES, 90)
    works(client, lasting, jobs=False)
    client("exec", lasting, "echo >/tmp/ticks; setsid sh -c 'while sleep 1; do echo x >>/tmp/ticks; done' >/dev/null 2>&1 &")
    works(client, lasting)


@pytest.mark.step
def test_removal_ends_the_server_and_keeps_data_keys_and_sandboxes(vm, client, lasting):
    vm.sh("DEBIAN_FRONTEND=noninteractive apt-get -q remove -y agent-sandbox", 120)
    assert vm.run("pgrep -x 'agent-sandboxd|managerd|apid'").status == 1
    assert client.run("ls").returncode == 5
    vm.sh(f"test -s /etc/agent-sandbox/keys && test -s /var/lib/agent-sandbox/instance.json && docker ps | grep -q {lasting}")
    vm.sh(INSTALL + " /mnt/next.deb", 120)
    vm.sh("systemctl start agent-sandbox", 60)
    vm.until(SERVES)
    works(client, lasting)


def test_purge_removes_data_and_keys(vm, client, lasting):
    vm.sh("DEBIAN_FRONTEND=noninteractive apt-get -q purge -y agent-sandbox", 120)
    left = vm.run(
        "ls -d /var/lib/agent-sandbox /etc/agent-sandbox /run/agent-sandbox* /etc/systemd/system/*/agent-sandbox* 2>/dev/null"
    ).out
    assert left == "", left
    assert vm.run("systemctl list-unit-files --no-legend 'agent-sandbox*'").out.strip() == ""
    assert (
        vm.run("aa-status 2>/dev/null | grep -w agent-sandbox; cat /sys/kernel/security/apparmor/profiles | grep agent-sandbox").out == ""
    )
