"""kill -9 of each program while a workspace is packed or unpacked: nothing lost, nothing left over, the next request works."""

import time

import pytest
from harness import PROGRAMS
from scene import kill


@pytest.mark.limit(180)
@pytest.mark.parametrize("victim", PROGRAMS)
@pytest.mark.parametrize("operation", ["snapshot", "rollback", "fork"])
def test_kill_of_a_program_while_the_workspace_is_packed_or_unpacked(scene, operation, victim):
    s = scene.server
    for delay in (0.01, 0.08, 0.2, 0.4):
        box = scene.api.fork(scene.snap)
        if operation == "snapshot":
            box.sh("head -c 30000000 /dev/urandom > changed; rm precious")
        else:
            box.put("old", b"x")
        result = scene.operate(operation, box)
        time.sleep(delay)
        gone = kill(s, victim)
        if victim == "agent-sandboxd":
            s.api.fresh()
            s.start()
        scene.check(operation, box, result, gone)
        scene.rest()
