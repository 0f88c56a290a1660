"""Standard streams of the command that are not what they usually are."""

import os
import subprocess

import pytest
from cli_kit import one_line


@pytest.mark.parametrize("verb", ["exec", "events", "cat"])
def test_output_that_somebody_made_non_blocking_comes_whole(cli, box, verb):
    data = os.urandom(750_000).hex().encode()
    box.put("data", data)
    words = {
        "exec": ("exec", "-n", box.id, "cat data"),
        "events": ("exec", "--events", "-n", box.id, "cat data"),
        "cat": ("cat", f"{box.id}:data"),
    }
    r, w = os.pipe()
    os.set_blocking(w, False)
    with cli.start(*words[verb], stdout=w) as p, open(r, "rb", buffering=0) as f:
        os.close(w)
        got = f.read(10)
        # The pipe is full by now: only then is there something to wait for.
        with pytest.raises(subprocess.TimeoutExpired):
            p.wait(1)
        while piece := f.read(65536):
            got += piece
        assert p.wait(30) == 0 and p.stderr.read() == b""
    assert got == data if verb != "events" else len(got) > len(data)


def test_file_that_says_it_is_empty_and_is_not_goes_up_whole(cli, box):
    cli.ok("put", "/proc/self/status", f"{box.id}:status")
    assert "VmPeak" in cli.ok("cat", f"{box.id}:status")
    with open("/proc/self/status", "rb") as f:
        assert "VmPeak" in cli.ok("exec", box.id, "cat", stdin=f)


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["ls", "--help"], ["keygen"], ["openapi"], ["ls"]], ids=" ".join)
def test_output_that_cannot_be_written_is_told(cli, words):
    with open("/dev/full", "wb") as full:
        p = cli(*words, stdout=full)
    assert p.returncode == 1 and "No space left" in one_line(p.stderr)
