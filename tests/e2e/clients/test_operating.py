"""Every command of docs/OPERATING.md, on a machine as the package leaves it; a backup, restored on another machine; half a backup."""

import contextlib
import itertools
import re
from pathlib import Path

import pytest
from harness import ROOT
from snippets import parse, wrong
from stage import Stage

PAGE = "docs/OPERATING.md"
SECTIONS = {s.title: s for s in parse(PAGE)}
ARCHIVE = "/var/backups/agent-sandbox.tar.gz"
CONF = "/etc/agent-sandbox/agent-sandbox.conf"
# What the package does when it is installed; there is no systemd on a stage.
PACKAGE = f"""set -e
mkdir -p /etc/agent-sandbox /var/backups /var/log
make -s --no-print-directory install
sed -f debian/conf.sed etc/agent-sandbox.conf >{CONF}
chmod 640 {CONF}
install -d -o _as-manager -g _as-manager -m 700 /var/lib/agent-sandbox
for tool in systemctl journalctl; do ln -sf {ROOT}/tests/e2e/clients/systemctl $(dirname $0)/$tool; done
"""


class Machine(Stage):
    """A stage with the package, an engine and a machine-id."""

    number = itertools.count(1)

    def __init__(self, engine):
        super().__init__(engine=engine)
        script = PACKAGE.replace("$(dirname $0)", f"{self.dir}/bin")
        try:
            self.sh(f"mkdir -p {self.dir}/bin; echo {next(self.number):032x} >/etc/machine-id; {script}")
        except BaseException:
            super().close()
            raise

    def sh(self, script, seconds=120):
        status, out = self.run_script(script, seconds)
        assert status == 0, f"{script}\n{out}"
        return out

    def fails(self, script):
        status, out = self.run_script(script)
        assert status != 0, f"{script}\n{out}"
        return out

    def log(self):
        return self.run_script("journalctl -u agent-sandbox")[1]

    def after(self, *titles):
        """Shell lines that bring a shell to where these sections leave it."""
        return self.state(tuple(f"{PAGE}#{t}" for t in titles)) + "\nset -e\n"

    def close(self):
        """Nothing of it stays on the engine."""
        key = "export AGENT_SANDBOX_API_KEY_FILE=~/agent-sandbox.key; "
        end = f"sed -i '/_TLS_/d; /_HOST=/d' {CONF}; systemctl restart agent-sandbox && agent-sandbox rm -f $(agent-sandbox ls -q) x; "
        self.run_script(f"[ -e ~/agent-sandbox.key ] || exit 0; {key}{end} systemctl stop agent-sandbox")
        super().close()


@contextlib.contextmanager
def machine(engine):
    m = Machine(engine)
    try:
        yield m
    finally:
        m.close()


@pytest.fixture(scope="module")
def reader(engine):
    """A machine on which the sections are played one after the other, the first key as the first."""
    with machine(engine) as m:
        yield m


def test_every_command_of_the_page_is_one_that_something_runs():
    assert [complaint for s in parse(PAGE) for complaint in wrong(s)] == []
    shown = re.findall(r"^```sh$", (ROOT / PAGE).read_text(), re.M)
    assert len(shown) == sum(x.language == "sh" and x.kind == "" for s in SECTIONS.values() for x in s.snippets)


@pytest.mark.limit(300)
def test_first_key_opens_a_new_server(engine):
    with machine(engine) as m:
        m.run(SECTIONS["The first key"])


@pytest.mark.limit(300)
@pytest.mark.parametrize("title", [t for t in SECTIONS if t not in ("The first key", "Restore")])
def test_commands_work_as_written(title, reader):
    reader.run(SECTIONS[title])


@pytest.fixture(scope="module")
def saved(reader, tmp_path_factory):
    """The archive of a machine's backup."""
    folder = tmp_path_factory.mktemp("backup")
    reader.run(SECTIONS["Backup"])
    reader.sh(f"cp {ARCHIVE} ~/agent-sandbox.key {folder}/")
    return folder / Path(ARCHIVE).name


def unpack(m, archive, spoil=""):
    """The archive on a machine, but for what is spoiled."""
    m.sh(f"rm -rf /etc/agent-sandbox /var/lib/agent-sandbox; tar -xzf {archive} -C /; cd /var/lib/agent-sandbox; {spoil}")


@pytest.mark.limit(400)
def test_backup_is_restored_on_another_machine_with_another_engine(saved, private_engine):
    with machine(private_engine()) as other:
        other.sh(f"cp {saved} {ARCHIVE}; cp {saved.parent}/agent-sandbox.key ~")
        other.run(SECTIONS["Restore"])


HALVES = {
    "rm instance.json": "instance.json is missing",
    "rm -r sandboxes": "has no sandboxes/ any more",
    "rm -r snapshots": "has no snapshots/ any more",
    "rm /etc/agent-sandbox/keys": "/etc/agent-sandbox/keys",
}


@pytest.mark.limit(300)
def test_half_a_backup_is_refused_or_said_by_name(saved, engine, tmp_path):
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    with machine(engine) as m:
        m.fails(f"gzip -t {cut}")
        m.fails(f"tar -xzf {cut} -C {tmp_path}")
        for spoil, said in HALVES.items():
            unpack(m, saved, spoil)
            assert "FAILED" in m.fails("cd / && sha256sum --quiet -c etc/agent-sandbox/backup.sums"), spoil
            status, out = m.run_script(f"timeout 60 agent-sandbox serve -f {CONF} --adopt")
            assert status == 2 and said in out, (spoil, status, out)


@pytest.mark.limit(300)
def test_data_directory_of_another_machine_is_refused_without_adopt(saved, engine):
    with machine(engine) as m:
        unpack(m, saved)
        m.fails("systemctl start agent-sandbox")
        assert "start once with --adopt" in m.log()
