"""schemathesis, which makes requests from the description of the API, finds nothing in a real server's answers."""

import os
import re
import subprocess

import openapi_kit
import pytest
from harness import DEFAULT_IMAGE, KEY, ROOT

HERE = ROOT / "tests/e2e/clients"
ST = ROOT / "build/venv/bin/st"


@pytest.mark.gate
@pytest.mark.limit(400)
def test_schemathesis_finds_nothing(own, tmp_path):
    s = own(MAX_SANDBOXES=12, ALLOWED_IMAGES=DEFAULT_IMAGE)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("AGENT_SANDBOX_", "SCHEMATHESIS_"))}
    env |= {"AGENT_SANDBOX_API_KEY": KEY, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "127.0.0.1"}
    p = subprocess.run(
        [ST, "--config-file", HERE / "schemathesis.toml", "run", s.url + "/openapi.json"],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=380,
    )  # fmt: skip
    said = "\n".join(line[:500] for line in (p.stdout + p.stderr).splitlines())
    assert p.returncode == 0, said
    assert "FAILURES" not in said and "ERRORS" not in said, said
    # The key lacks the scope of one route, and of no other.
    assert "Authentication failed: 1 operation" in said and re.search(r"403 Forbidden \(1 operation\):\s+- GET /metrics\s*\n", said), said
    assert "401 Unauthorized" not in said, said
    tested = int(re.search(r"Tested: (\d+)", said)[1])
    assert tested == len(openapi_kit.operations(openapi_kit.load())) - 1, said  # all but the document itself
    assert [said.count(f"✅ {phase}\n") for phase in ("Examples", "Coverage", "Fuzzing", "Stateful")] == [1] * 4, said
    assert int(re.search(r"(\d+) generated, (\d+) passed", said)[1]) > 500, said
    assert s.process.poll() is None and s.api.healthy()
    s.api.delete_all()
