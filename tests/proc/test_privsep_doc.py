"""docs/PRIVSEP.md has the tables of the source."""

import re
import shutil
import subprocess

import layout


def check(root):
    return subprocess.run([root / "tools/privsep-doc", "--check"], capture_output=True, text=True)


def test_page_is_not_stale():
    p = check(layout.ROOT)
    assert p.returncode == 0, p.stdout + p.stderr


def test_a_changed_table_makes_the_page_stale(tmp_path):
    for name in ("proto", "common", "tests/proc", "apid", "managerd", "dockerd-proxy", "sessiond", "egressd", "keyd"):
        (tmp_path / name).mkdir(parents=True)
        for file in [*(layout.ROOT / name).glob("*.h"), *(layout.ROOT / name).glob("*.c"), *(layout.ROOT / name).glob("layout.py")]:
            shutil.copy(file, tmp_path / name)
    for name in ("tools/privsep-doc", "docs/PRIVSEP.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(layout.ROOT / name, tmp_path / name)
    assert check(tmp_path).returncode == 0
    for name, old, new in (
        ("proto/parent.h", "struct m_config, CONFIG_STRING_MAX", "struct m_config, 16384"),
        ("apid/sandbox.c", "stream inet", "stream inet unix"),
        ("common/confine_groups.c", "ALLOW(accept4)", "ALLOW(accept4), ALLOW(bind)"),
    ):
        file = tmp_path / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
        assert check(tmp_path).returncode == 1, name
        file.write_text(text)


def test_every_program_message_and_promise_is_on_the_page():
    page = (layout.ROOT / "docs/PRIVSEP.md").read_text()
    assert all(f"| `{r.name}` | 0x{n:04x} |" in page for n, r in layout.ROWS.items())
    promised = set(re.findall(r"^\| `(\w+)` \| [^`|]+ \| `", page, re.M))
    for name in ("apid", "managerd", "dockerd-proxy", "sessiond", "egressd", "keyd"):
        row = re.search(rf"^\| {name} \| `([\w ]+)` \|", page, re.M)
        assert row and set(row[1].split()) <= promised, name
