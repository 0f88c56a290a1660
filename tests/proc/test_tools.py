"""What the makefile's long runs say of themselves, on a small scale: make fuzz with a target that finds something, the changes of make mutants."""

import os
import subprocess
import sys

import pytest
from layout import ROOT

sys.path.insert(0, str(ROOT / "tests/mutants"))
import covers  # noqa: E402
import mutate  # noqa: E402

TARGET = """#!/bin/sh
echo "#2 INITED cov: 41 ft: 42 corp: 1/1b"
%s
echo "stat::number_of_executed_units: 1234"
echo "stat::average_exec_per_sec: 617"
"""
SOURCE = """/* if (x == 1) */
#define TWICE(x) ((x) + (x))
static int
pick(int a, const char *s)
{
	char buf[16];

	if (a < 3 && s != NULL) {
		log_info("a - b == 1");
		count(a + 1);
	}
	free(buf);
	return a;
}
"""


@pytest.fixture
def fuzz(tmp_path):
    """fuzz(name="exit 0", ...): the tool's status and output with these targets."""

    def run(**targets):
        folder = tmp_path / "tests/fuzz"
        folder.mkdir(parents=True)
        for name, what in targets.items():
            (folder / name).write_text(TARGET % what)
            (folder / name).chmod(0o755)
        env = os.environ | {"FUZZ_BUILD": str(tmp_path)}
        p = subprocess.run([ROOT / "tests/tools/fuzz", "1", *targets], env=env, capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout

    return run


def test_fuzzing_that_finds_nothing_ends_with_a_table_and_status_0(fuzz, tmp_path):
    status, out = fuzz(fuzz_one=":", fuzz_two="echo new >${6}/added")
    assert status == 0 and "nothing found in 2 targets" in out
    assert "| one | 1,234 | 617 | 41 | 0 | ok |\n| two | 1,234 | 617 | 41 | 1 | ok |\n" in (tmp_path / "table.md").read_text()


def test_finding_is_named_and_the_others_still_run(fuzz):
    status, out = fuzz(fuzz_bad="echo 'Test unit written to bad-crash'; exit 77", fuzz_good=":")
    assert status == 1 and "findings in fuzz_bad" in out
    assert "**exit 77**: bad-crash" in out and "| good | 1,234 |" in out


def test_target_that_ran_nothing_has_shown_nothing(fuzz):
    status, out = fuzz(fuzz_idle="exit 0")
    assert status == 1 and "| idle | 0 |" in out


def test_changes_are_of_code_and_of_nothing_else():
    found = mutate.mutants("x.c", SOURCE)
    assert [(m.line, m.kind, m.old, m.new) for m in found] == [
        (8, "negated", "(a < 3 && s != NULL)", "(!(a < 3 && s != NULL))"),
        (8, "boundary", "<", "<="),
        (8, "comparison", "<", ">="),
        (8, "constant", "3", "4"),
        (8, "logic", "&&", "||"),
        (8, "comparison", "!=", "=="),
        (10, "deleted", "count(a + 1);", ";"),
        (10, "arithmetic", "+", "-"),
        (10, "constant", "1", "0"),
    ]
    assert found[1].apply(SOURCE) == SOURCE.replace("a < 3", "a <= 3")


def test_rows_of_a_table_are_changed():
    row = "#define T(X) \\\n\tX(APID, K_USE, struct m_k_use, 0, FD_NONE)\n"
    assert [(m.old, m.new) for m in mutate.mutants("proto/x.h", row)] == [("0", "8"), ("FD_NONE", "FD_MUST")]


def test_every_source_that_is_changed_has_tests():
    for pattern in ("proto/*.h", "common/*.c", "dockerd-proxy/*.c", "keyd/*.c"):
        for source in ROOT.glob(pattern):
            path = str(source.relative_to(ROOT))
            if not mutate.mutants(path, source.read_text()):
                continue
            units, proc = covers.of(path)
            assert units or proc, path
            assert all((ROOT / f"tests/unit/{u}.c").exists() for u in units) and all((ROOT / f"tests/proc/{p[0]}").exists() for p in proc)
