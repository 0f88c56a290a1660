"""sessiond and commands: what reaches the guest, what reaches the client, who waits for whom."""

import os
import struct
import time

import layout
import pytest
from machine import SLACK, wait_until
from session_kit import Session, args_record, end, error_of, exited, parse_block, pieces, send_later


def test_exec_passes_arguments_output_and_exit():
    with Session() as s:
        id, client = s.exec([b"sh", b"-c", b"echo hi"], [b"A=1"], timeout_us=7_000_000)
        channel, block, fields = s.guest.expect_exec()
        argv, env, workdir = parse_block(block)
        assert argv == [b"sh", b"-c", b"echo hi"] and workdir == b"/workspace"
        assert env == [b"A=1", b"HOME=/workspace", b"PATH=" + b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
        assert fields["timeout_us"] == 7_000_000 and fields["stdin_open"] == 0 and 1 <= channel <= 56
        s.guest.send(layout.G_STARTED, channel)
        s.guest.send(layout.G_STDOUT, channel, b"hi\n")
        s.guest.send(layout.G_STDERR, channel, b"oops")
        s.guest.send(layout.G_EXIT, channel, exited(3, oom_killed=1, cpu_us=9, peak_memory_bytes=77))
        got = client.all()
        assert [r[0] for r in got] == [layout.RECORD_STARTED, layout.RECORD_STDOUT, layout.RECORD_STDERR, layout.RECORD_EXIT]
        assert got[1][1] == b"hi\n" and got[2][1] == b"oops"
        exit = layout.unpack("r_exit", got[3][1])
        assert (exit["exit_code"], exit["oom_killed"], exit["cpu_us"], exit["peak_memory_bytes"]) == (3, 1, 9, 77)
        m = s.job_end(id, 200).fields
        assert m["exit_code"] == 3 and m["bytes_out"] == 7 and m["duration_us"] > 0


def test_environment_of_the_exec_wins_over_the_sandbox_and_both_over_the_defaults():
    big = b"BIG=" + b"x" * 60_000
    with Session(env=b"A=sandbox\0B=sandbox\0HOME=/root\0" + big + b"\0") as s:
        s.exec([b"env"], [b"A=exec", b"AB=exec"])
        _, block, _ = s.guest.expect_exec()
        _, env, _ = parse_block(block)
        path = b"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        assert env == [b"A=exec", b"AB=exec", b"B=sandbox", b"HOME=/root", big, path]


def test_stdcopy_framing_of_the_engine_is_taken_off_and_stderr_of_init_ignored():
    with Session(framing=layout.GUEST_STDCOPY, up=False) as s:
        s.attach()
        s.guest.read_hello()
        s.guest.sock.sendall(struct.pack(">BxxxI", 2, 5) + b"noise")
        s.guest.send(layout.G_HELLO_ACK, 0, s.guest.hello)
        s.manager.expect("S_UP")
        id, client = s.exec()
        channel, _, _ = s.guest.expect_exec()
        frames = layout.frame(layout.G_STARTED, channel) + layout.frame(layout.G_STDOUT, channel, b"x" * 9000)
        frames += layout.frame(layout.G_EXIT, channel, exited())
        for i in range(0, len(frames), 1000):
            s.guest.raw(frames[i : i + 1000])
            s.guest.sock.sendall(struct.pack(">BxxxI", 2, 3) + b"err")
        got = client.all()
        assert b"".join(d for t, d in got if t == layout.RECORD_STDOUT) == b"x" * 9000
        s.job_end(id, 200)


def test_stdin_is_pumped_with_credit_and_ends():
    data = os.urandom(layout.GUEST_WINDOW + 100_000)
    with Session() as s:
        id, client, channel = s.started(stdin_follows=1)
        for at in (0, 65536):
            client.send(layout.RECORD_STDIN, data[at : at + 65536])
        rest = data[131072:]
        got = b""
        while len(got) < 131072:
            got += s.guest.expect(layout.G_STDIN, channel)[1]
        send_later(client, [*pieces(layout.RECORD_STDIN, rest), (layout.RECORD_STDIN_END, b"")])
        while len(got) < layout.GUEST_WINDOW:
            got += s.guest.expect(layout.G_STDIN, channel)[1]
        with pytest.raises(TimeoutError):
            s.guest.recv(0.2)
        s.guest.window(channel, 100_000)
        while len(got) < len(data):
            got += s.guest.expect(layout.G_STDIN, channel)[1]
        assert got == data
        s.guest.window(channel, 1)
        s.guest.expect(layout.G_STDIN_END, channel)
        s.guest.send(layout.G_EXIT, channel, exited())
        assert s.job_end(id, 200).fields["bytes_in"] == len(data)


def test_arguments_that_are_not_what_was_announced_fail_only_that_command():
    with Session() as s:
        for wrong in (
            {"args_sha256": bytes(32)},
            {"args_len": 5},
            {"args_len": 1 << 30},
            {"timeout_us": 0},
            {"timeout_us": -1},
            {"args": b"\1\0\0\0"},
            {"args": struct.pack("<II", 0, 0) + b"/\0"},
            {"args": struct.pack("<II", 2, 0) + b"a\0/\0"},
            {"args": struct.pack("<II", 1, 1) + b"a\0=b\0/\0"},
            {"args": struct.pack("<II", 1, 0) + b"a\0/"},
            {"args": struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF) + b"a\0/\0"},
        ):
            id, client = s.exec(**wrong)
            assert error_of(client.recv())[0] == 500, wrong
            s.job_end(id, 500)
            client.close()
        id, client, channel = s.started()
        s.guest.send(layout.G_EXIT, channel, exited())
        s.job_end(id, 200)


def test_client_that_leaves_ends_its_command():
    with Session() as s:
        id, client, channel = s.started()
        client.close()
        s.guest.expect(layout.G_KILL, channel)
        s.guest.send(layout.G_STDOUT, channel, b"late")
        s.guest.send(layout.G_EXIT, channel, exited(137))
        assert s.job_end(id, 200).fields["exit_code"] == 137


def test_client_that_leaves_before_the_start_ends_its_command():
    with Session() as s:
        id, client = s.exec()
        channel, _, _ = s.guest.expect_exec()
        client.close()
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_END, channel, end(500, 0, b"closed"))
        s.job_end(id)


def test_kept_command_goes_on_without_its_client_and_gets_credit():
    with Session() as s:
        id, client, channel = s.started(keep=1)
        client.close()
        sent = 0
        credit = layout.GUEST_WINDOW
        while sent < 3 * layout.GUEST_WINDOW:
            if credit >= 65536:
                s.guest.send(layout.G_STDOUT, channel, bytes(65536))
                sent += 65536
                credit -= 65536
            else:
                credit += struct.unpack("<II", s.guest.expect(layout.G_WINDOW, channel)[1])[0]
        s.guest.send(layout.G_EXIT, channel, exited())
        assert s.job_end(id, 200).fields["bytes_out"] == sent


def test_kept_command_still_gets_the_stdin_that_was_sent():
    with Session() as s:
        id, client, channel = s.started(keep=1, stdin_follows=1)
        client.send(layout.RECORD_STDIN, b"a" * 1000)
        client.send(layout.RECORD_STDIN, b"b" * 1000)
        client.close()
        got = b""
        while True:
            type, ch, data = s.guest.recv()
            if type == layout.G_STDIN_END:
                break
            assert type == layout.G_STDIN
            got += data
        assert got == b"a" * 1000 + b"b" * 1000
        s.guest.send(layout.G_EXIT, channel, exited())
        s.job_end(id, 200)


def test_stalled_client_does_not_hold_up_another_and_gets_no_more_credit():
    with Session() as s:
        _, stalled, one = s.started()
        id2, client, two = s.started()
        for _ in range(4):
            s.guest.send(layout.G_STDOUT, one, bytes(65536))
        s.guest.send(layout.G_STDOUT, two, b"alive")
        assert client.recv() == (layout.RECORD_STDOUT, b"alive")
        credit = layout.GUEST_WINDOW - 4 * 65536
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            try:
                credit += struct.unpack("<II", s.guest.recv(0.1)[2])[0]
            except TimeoutError:
                break
        assert credit < layout.GUEST_WINDOW, "all credit came back though nobody read"
        got = b""
        while len(got) < 4 * 65536:
            got += stalled.recv()[1]
        s.guest.send(layout.G_EXIT, two, exited())
        s.job_end(id2, 200)


def test_output_of_many_small_frames_for_a_stalled_client_takes_little_memory():
    with Session() as s:
        _, stalled, one = s.started()
        before = s.pss_kb()["Pss_Anon"]
        s.guest.raw(layout.frame(layout.G_STDOUT, one, b"x") * layout.GUEST_WINDOW)
        id2, client, two = s.started()
        s.guest.send(layout.G_EXIT, two, exited())
        s.job_end(id2, 200)
        assert s.pss_kb()["Pss_Anon"] - before < 2048
        got = b""
        while len(got) < layout.GUEST_WINDOW:
            got += stalled.recv()[1]
        assert got == b"x" * layout.GUEST_WINDOW


def test_57th_command_is_told_to_come_again():
    with Session() as s:
        clients = [s.started() for _ in range(layout.EXECS_MAX)]
        assert {c[2] for c in clients} == set(range(1, 57))
        id, client = s.exec()
        record = client.recv()
        assert error_of(record)[0] == 429
        assert layout.unpack("r_error", record[1])["retry_after"] == 1
        s.job_end(id, 429)
        s.guest.send(layout.G_EXIT, clients[5][2], exited())
        s.job_end(clients[5][0], 200)
        _, _, channel = s.started()
        assert channel == clients[5][2]


def test_files_have_channels_that_commands_cannot_take():
    with Session() as s:
        clients = [s.started() for _ in range(layout.EXECS_MAX)]
        for _ in range(8):
            clients.append(s.job("S_LIST", {"max": 1}, b"/workspace"))
            channel, _, _ = s.guest.expect_file(layout.G_LIST)
            assert channel >= 57


def test_that_the_program_must_exist_is_passed_on_and_its_absence_is_an_error_after_the_start():
    with Session() as s:
        id, client = s.exec(must_exist=1)
        channel, _, g = s.guest.expect_exec()
        assert g["must_exist"] == 1
        s.guest.send(layout.G_STARTED, channel)
        s.guest.send(layout.G_END, channel, end(400, 0, b"no such program: true"))
        assert client.recv() == (layout.RECORD_STARTED, b"") and error_of(client.recv()) == (400, "no such program: true")
        assert s.job_end(id, 400).fields["exit_code"] == -1
        id, client = s.exec(must_exist=2)
        assert error_of(client.recv())[0] == 500
        s.job_end(id, 500)


def test_failures_before_and_after_the_start_reach_the_client():
    with Session() as s:
        id, client = s.exec()
        channel, _, _ = s.guest.expect_exec()
        s.guest.send(layout.G_END, channel, end(400, 0, b"workdir: no such \x1b[1mdirectory\xff"))
        assert error_of(client.recv()) == (400, "workdir: no such ?[1mdirectory?")
        m = s.job_end(id, 400)
        assert m.tail == b"workdir: no such ?[1mdirectory?"
        id, client, channel = s.started()
        s.guest.send(layout.G_STDOUT, channel, b"part")
        s.guest.send(layout.G_END, channel, end(429, 0, b"sandbox reached its pids_limit"))
        assert client.recv() == (layout.RECORD_STDOUT, b"part")
        assert error_of(client.recv()) == (429, "sandbox reached its pids_limit")
        s.job_end(id, 429)


def test_command_that_outlives_its_limit_is_killed_from_outside_then_the_session_ends():
    with Session() as s:
        began = time.monotonic()
        id, client, channel = s.started(timeout_us=100_000)
        s.guest.expect(layout.G_KILL, channel, timeout=30)
        assert 9.5 < time.monotonic() - began < 11.5 + SLACK
        assert s.manager.recv_until("S_DOWN", timeout=30).tail
        assert error_of(client.recv())[0] == 502
        s.job_end(id, 502)


def test_jobs_wait_for_the_guest_and_begin_when_it_answers():
    with Session(up=False) as s:
        id, client = s.exec()
        s.attach()
        id2, _ = s.exec()
        s.greet()
        a, _, _ = s.guest.expect_exec()
        b, _, _ = s.guest.expect_exec()
        assert a != b
        s.guest.send(layout.G_STARTED, a)
        s.guest.send(layout.G_EXIT, a, exited())
        s.job_end(id, 200)


def test_too_many_jobs_are_refused_at_once():
    with Session(up=False) as s:
        kept = [s.exec() for _ in range(256)]
        for _ in range(400):
            id, client = s.exec()
            assert error_of(client.recv())[0] == 429
            s.job_end(id, 429)
            kept.append(client)
        assert s.alive() and s.nfds() < 512


def test_kill_all_is_passed_on():
    with Session() as s:
        s.manager.send("S_KILL_ALL", 0)
        s.guest.expect(layout.G_KILL_ALL, 0)


@pytest.mark.parametrize(
    "reason,status,text",
    [
        ("END_DELETED", 409, "sandbox sb_0000000000000abc was deleted"),
        ("END_EXPIRED", 409, "sandbox sb_0000000000000abc expired"),
        ("END_ROLLED_BACK", 409, "sandbox sb_0000000000000abc was rolled back"),
        ("END_BACKEND", 502, "the engine lost sandbox sb_0000000000000abc"),
        ("END_SHUTDOWN", 503, "the server is going down"),
    ],
)
def test_end_tells_every_client_why(reason, status, text):
    with Session() as s:
        id, client, channel = s.started()
        id2, waiting = s.exec()
        s.guest.expect_exec()
        s.guest.send(layout.G_STDOUT, channel, b"so far")
        assert client.recv() == (layout.RECORD_STDOUT, b"so far")
        s.manager.send("S_END", 0, {"reason": layout.CONST[reason]})
        if reason == "END_ROLLED_BACK":
            s.guest.expect(layout.G_KILL_ALL, 0)  # nothing of the old one runs on, and its deaths are not told
        assert error_of(client.recv()) == (status, text)
        assert error_of(waiting.recv()) == (status, text)
        s.job_end(id, status)
        s.job_end(id2, status)
        client.close()
        waiting.close()
        assert s.wait(30) == 0


def test_end_waits_a_second_at_most_for_a_client_that_does_not_read():
    with Session() as s:
        _, client, channel = s.started()
        for _ in range(4):
            s.guest.send(layout.G_STDOUT, channel, bytes(65536))
        s.manager.send("S_END", 0, {"reason": layout.END_DELETED})
        began = time.monotonic()
        assert s.wait(30) == 0
        assert time.monotonic() - began < 2 + SLACK


def test_end_of_the_guest_stream_fails_the_jobs_and_the_session_stays_for_managerd():
    with Session() as s:
        id, client, _ = s.started()
        s.guest.close()
        assert s.down()
        assert error_of(client.recv()) == (502, "the engine lost sandbox sb_0000000000000abc")
        s.job_end(id, 502)
        id, client = s.exec()
        assert error_of(client.recv())[0] == 502
        s.job_end(id, 502)
        assert s.alive()
        s.manager.close()
        assert s.wait() == 0


def test_reason_that_managerd_gives_wins_over_the_end_of_the_stream():
    with Session() as s:
        _, client, _ = s.started()
        os.kill(s.pid, 19)
        s.manager.send("S_END", 0, {"reason": layout.END_DELETED})
        s.guest.close()
        os.kill(s.pid, 18)
        assert error_of(client.recv()) == (409, "sandbox sb_0000000000000abc was deleted")


def test_guest_of_another_version_and_guest_that_does_not_answer():
    with Session(up=False) as s:
        s.attach()
        s.guest.read_hello()
        hello = layout.unpack("g_hello", s.guest.hello)
        s.guest.send(layout.G_HELLO_ACK, 0, layout.pack("g_hello", hello | {"version": 99}))
        m = s.manager.recv_until("S_DOWN")
        assert m.fields == {"why": layout.DOWN_VERSION, "guest_version": 99} and m.tail == b"guest version"
    with Session(up=False) as s:
        s.attach()
        s.guest.read_hello()
        s.guest.send(layout.G_HELLO_ACK, 0, layout.pack("g_hello", {"nonce": 1, "version": layout.GUEST_VERSION}))
        m = s.manager.recv()
        assert m.name == "S_DOWN" and m.fields["why"] == layout.DOWN_LOST


def test_everything_before_the_answer_is_discarded():
    with Session(up=False) as s:
        s.attach()
        s.guest.read_hello()
        whole = layout.frame(layout.G_STDOUT, 3, b"of an older attachment")
        s.guest.raw(whole[5:] + whole + b"\x41\x53" + layout.frame(layout.G_STDOUT, 3, b"", length=60000) + whole[:20])
        s.guest.send(layout.G_HELLO_ACK, 0, s.guest.hello)
        s.manager.expect("S_UP")
        s.started()


def test_disk_is_told_once_a_second_at_most():
    with Session() as s:
        stat = layout.pack("g_stat", {"free_bytes": 1000, "free_inodes": 50})
        for _ in range(10):
            s.guest.send(layout.G_STAT, 0, stat)
        assert s.manager.expect("S_DISK").fields == {"free_bytes": 1000, "free_inodes": 50}
        assert s.manager.silent(0.3)
        time.sleep(0.8)
        s.guest.send(layout.G_STAT, 0, stat)
        s.manager.expect("S_DISK")


def test_guest_that_does_not_read_stops_the_clients_and_memory_stays_flat():
    with Session() as s:
        id, client, channel = s.started(stdin_follows=1)
        others = [s.started(stdin_follows=1) for _ in range(5)]
        before = s.pss_kb()["Pss_Anon"]
        total = 0
        for c in [client] + [o[1] for o in others]:
            c.sock.settimeout(0.3)
            try:
                while total < 64 << 20:
                    total += c.sock.send(layout.record(layout.RECORD_STDIN, bytes(65536)))
            except TimeoutError:
                pass
        assert total < 8 << 20
        assert s.pss_kb()["Pss_Anon"] - before < 2048
        s.manager.send("S_END", 0, {"reason": layout.END_DELETED})
        assert s.wait(30) == 0


def test_nothing_is_left_open_after_many_commands():
    with Session() as s:
        before = s.nfds()
        for _ in range(200):
            id, client, channel = s.started()
            s.guest.send(layout.G_EXIT, channel, exited())
            s.job_end(id, 200)
            client.close()
        assert wait_until(lambda: s.nfds() == before)


def test_parent_or_managerd_gone_ends_the_process():
    with Session() as s:
        s.parent.close()
        assert s.wait() == 0
    with Session() as s:
        s.manager.close()
        assert s.wait() == 0


def test_arguments_at_their_maximum_arrive_whole():
    argv = [b"x" * (128 * 1024 - 2), b"y" * (127 * 1024)]
    assert len(args_record(argv)) < layout.RECORD_ARGS_MAX
    with Session() as s:
        s.exec(argv)
        _, block, _ = s.guest.expect_exec()
        assert parse_block(block)[0] == argv


def test_new_command_gets_through_beside_uploads_that_fill_the_way_to_the_guest():
    with Session() as s:
        clients = [s.started(stdin_follows=1) for _ in range(3)]
        for _, client, _ in clients:
            send_later(client, pieces(layout.RECORD_STDIN, bytes(30 << 20)))
        time.sleep(0.3)
        kept = s.exec()
        taken = 0
        while True:
            type, channel, data = s.guest.recv()
            if type == layout.G_EXEC:
                break
            if type == layout.G_STDIN:
                taken += len(data)
                s.guest.window(channel, len(data))
        assert taken < 2 << 20 and kept


def test_last_bytes_reach_a_slow_client_although_managerd_closed_after_the_end():
    with Session() as s:
        _, client, channel = s.started()
        for _ in range(4):
            s.guest.send(layout.G_STDOUT, channel, bytes(65536))
        _, other, two = s.started()
        s.guest.send(layout.G_STDOUT, two, b"all is handled")
        other.recv()
        s.manager.send("S_END", 0, {"reason": layout.END_DELETED})
        s.manager.close()
        time.sleep(0.3)
        got = client.all()
        assert sum(len(d) for t, d in got if t == layout.RECORD_STDOUT) == 4 * 65536
        assert error_of(got[-1])[0] == 409
