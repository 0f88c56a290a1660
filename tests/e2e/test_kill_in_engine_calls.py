"""kill -9 of each program at each engine call of each operation: nothing lost, nothing left over, the next request works."""

import pytest
from harness import PROGRAMS
from scene import kill

CALLS = {
    "create": ["POST .*/volumes/create", "POST .*/containers/create", "POST .*/attach", "POST .*/start"],
    "fork": ["POST .*/volumes/create", "POST .*/containers/create", "POST .*/start"],
    "rollback": [
        "POST .*/volumes/create",
        "POST .*/containers/create",
        "POST .*/attach",
        "POST .*/start",
        "DELETE .*/containers/",
        "DELETE .*/volumes/",
    ],
    "destroy": ["DELETE .*/containers/", "DELETE .*/volumes/"],
}


@pytest.mark.limit(300)
@pytest.mark.parametrize("victim", PROGRAMS)
@pytest.mark.parametrize("operation", list(CALLS))
def test_kill_of_a_program_while_an_engine_call_is_under_way(scene, operation, victim):
    s, faulty = scene.server, scene.faulty
    for step in CALLS[operation]:
        box = None
        if operation in ("rollback", "destroy"):
            box = scene.api.fork(scene.snap)
            box.put("old", b"x")
        faulty.hold(step)
        result = scene.operate(operation, box)
        reached = faulty.reached.wait(30)
        gone = kill(s, victim)
        faulty.let_go()
        if victim == "agent-sandboxd":
            s.api.fresh()
            s.start()
        scene.check(operation, box, result, gone)
        scene.rest()
        assert reached, f"{operation} never made the call {step}"
