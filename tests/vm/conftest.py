"""Fixtures: vm (one machine for the whole run), client (the command of this tree, out here), package (what is tested)."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(1, str(Path(__file__).parents[1] / "e2e"))
import images  # noqa: E402
import vm as machine  # noqa: E402

ROOT = machine.ROOT
STORY = pytest.StashKey()


def pytest_runtest_setup(item):
    """The tests are one story on one machine: what comes after a step that others stand on says nothing without it."""
    broken = item.session.stash.get(STORY, None)
    if broken:
        pytest.fail(f"not tried, since {broken} failed", pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and item.get_closest_marker("step") and not item.session.stash.get(STORY, None):
        item.session.stash[STORY] = item.name
    if report.failed and (vm := item.funcargs.get("vm")) and vm.process.poll() is None:
        report.sections.append(("journal of the service", vm.run("journalctl -n 60 --no-pager -u agent-sandbox").out[-4000:]))


def pytest_configure(config):
    config.addinivalue_line("markers", "step: those that follow stand on it")


def pytest_terminal_summary(terminalreporter, config):
    if said := getattr(config, "about_the_machine", None):
        terminalreporter.write_line(said)


@pytest.fixture(scope="session")
def package():
    given = os.environ.get("VM_PACKAGE")
    found = [Path(given)] if given else sorted((ROOT / "build/deb").glob("agent-sandbox_*.deb"))
    assert len(found) == 1, f"one package to test, not {found}: make deb"
    return found[0]


@pytest.fixture(scope="session")
def vm(package, pytestconfig):
    folder = Path(tempfile.mkdtemp(prefix="as-vm-"))
    m = None
    try:
        m = machine.boot(ROOT / "build/vm/disk", folder)
        pytestconfig.about_the_machine = f"the machine: {m.accelerator}, ready after {m.boot_seconds:.0f} s"
        shutil.copy(package, m.share / "agent-sandbox.deb")
        (m.share / "tiny.tar").write_bytes(images.tar_of(images.busybox()))
        yield m
    finally:
        if m:
            m.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Client:
    """The command, on another machine than the server."""

    def __init__(self, vm):
        self.vm = vm
        self.key, self.ca = vm.share / "key", vm.share / "ca.pem"

    def run(self, *words, stdin=b"", seconds=60, **env):
        base = {"PATH": os.environ["PATH"], "HOME": str(self.vm.dir), "AGENT_SANDBOX_URL": f"https://127.0.0.1:{self.vm.port}"}
        base |= {"AGENT_SANDBOX_API_KEY_FILE": str(self.key), "AGENT_SANDBOX_CA_FILE": str(self.ca)}
        command = [ROOT / "build/agent-sandbox", *words]
        return subprocess.run(
            command, env=base | env, input=stdin, capture_output=True, timeout=seconds * self.vm.scale, cwd=self.vm.dir, check=False
        )

    def __call__(self, *words, **more):
        """The output of a command that must succeed."""
        p = self.run(*words, **more)
        assert p.returncode == 0, f"{words}: {p.returncode} {p.stdout[-1500:]!r} {p.stderr[-1500:]!r}"
        return p.stdout.decode()


@pytest.fixture(scope="session")
def client(vm):
    return Client(vm)
