"""The soak (make soak), short: that it makes, kills, counts and ends with its table."""

import os
import subprocess
import sys

import pytest
from harness import BUILD, ROOT

SOAK = [sys.executable, ROOT / "tests/soak/soak.py"]


@pytest.mark.limit(600)
def test_short_soak_leaves_nothing_and_ends_with_its_table(tmp_path):
    env = os.environ | {"AS_TEST_BUILD": str(BUILD)}
    (tmp_path / "doc.md").write_text("before\n<!-- table -->\n\nold\n")
    files = [f"--output={tmp_path}/page.md", f"--page={tmp_path}/doc.md"]
    p = subprocess.run([*SOAK, "--cycles=40", "--kill-every=5", *files], cwd=ROOT, env=env, capture_output=True, text=True)
    assert p.returncode == 0 and "no answer was wrong" in p.stdout, p.stdout[-6000:] + p.stderr[-2000:]
    page = (tmp_path / "page.md").read_text()
    assert "| cycles | 40 by" in page and "| killed | 0" not in page and "| wrong answers | 0 |" in page
    assert "**" not in page and page in p.stdout
    assert (tmp_path / "doc.md").read_text() == f"before\n<!-- table -->\n\n{page}"


def test_soak_of_too_few_cycles_is_refused_with_one_line():
    p = subprocess.run(SOAK, env=os.environ | {"SOAK_CYCLES": "3"}, capture_output=True, text=True)
    assert p.returncode == 1 and p.stderr == "soak: SOAK_CYCLES is at least 20\n"
