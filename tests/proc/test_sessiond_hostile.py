"""sessiond against a sandbox that says wrong things: the session ends with 502 for its jobs, and nothing else happens."""

import random
import select
import struct

import layout
import pytest
from machine import wait_until
from session_kit import Session, end, entry, error_of, exited, meta


def stat(**kw):
    return layout.pack("g_stat", {"free_bytes": 1, "free_inodes": 1} | kw)


def window(n):
    return struct.pack("<II", n, 0)


class Case:
    """What a hostile guest does: channels of each kind are open, and named by their verb."""

    def __init__(self, s):
        self.s, self.clients, self.ids, self.ch = s, {}, {}, {}
        self.ids["exec"], self.clients["exec"], self.ch["exec"] = s.started(stdin_follows=1)
        self.ids["new"], self.clients["new"] = s.exec()
        self.ch["new"] = s.guest.expect_exec()[0]
        for kind, verb, fields in (
            ("read", "S_READ", {"max": 1000}),
            ("write", "S_WRITE", {"max": 1000, "size": -1}),
            ("list", "S_LIST", {}),
            ("get", "S_ARCHIVE_GET", {"max": 1000}),
            ("put", "S_ARCHIVE_PUT", {"max": 1000}),
        ):
            self.ids[kind], self.clients[kind] = s.job(verb, fields, b"/workspace/f")
            self.ch[kind] = s.guest.recv()[1]

    def send(self, kind, type, data=b"", **wrong):
        ch = self.ch[kind] if isinstance(kind, str) else kind
        try:
            self.s.guest.send(type, ch, data, **wrong)
        except (BrokenPipeError, ConnectionResetError):
            pass


L = layout

WRONG = {
    # the stream
    "crc": lambda c: c.send("exec", L.G_STDOUT, b"x", crc=1),
    "magic": lambda c: c.send("exec", L.G_STDOUT, b"x", magic=0x31665342),
    "garbage": lambda c: c.s.guest.raw(random.Random(3).randbytes(1000)),
    "length_huge": lambda c: c.send("exec", L.G_STDOUT, b"x", length=0xFFFFFFFF),
    "length_over": lambda c: c.send("exec", L.G_STDOUT, b"x", length=65537),
    "flags": lambda c: c.send("exec", L.G_STDOUT, b"x", flags=1),
    # channels
    "channel_65": lambda c: c.send(65, L.G_STDOUT, b"x"),
    "channel_65535": lambda c: c.send(65535, L.G_STDOUT, b"x"),
    "channel_closed": lambda c: c.send(30, L.G_STDOUT, b"x"),
    "channel_0": lambda c: c.send(0, L.G_STDOUT, b"x"),
    "ack_again": lambda c: c.send(0, L.G_HELLO_ACK, c.s.guest.hello),
    "ack_on_channel": lambda c: c.send("exec", L.G_HELLO_ACK, c.s.guest.hello),
    "stat_on_channel": lambda c: c.send("exec", L.G_STAT, stat()),
    "stat_short": lambda c: c.send(0, L.G_STAT, stat()[:8]),
    "stat_negative": lambda c: c.send(0, L.G_STAT, stat(free_bytes=-1)),
    "stat_flood": lambda c: [c.send(0, L.G_STAT, stat()) for _ in range(5000)],
    "type_0": lambda c: c.send("exec", 0),
    "type_255": lambda c: c.send("exec", 255, b"x" * 100),
    "type_of_ours": lambda c: c.send("exec", L.G_KILL_ALL),
    "hello": lambda c: c.send(0, L.G_HELLO, c.s.guest.hello),
    # commands
    "started_twice": lambda c: c.send("exec", L.G_STARTED),
    "started_with_data": lambda c: c.send("new", L.G_STARTED, b"x"),
    "stdout_before_started": lambda c: c.send("new", L.G_STDOUT, b"x"),
    "stdout_empty": lambda c: c.send("exec", L.G_STDOUT),
    "exit_before_started": lambda c: c.send("new", L.G_EXIT, exited()),
    "exit_twice": lambda c: [c.send("exec", L.G_EXIT, exited()), c.send("exec", L.G_EXIT, exited())],
    "stdout_after_exit": lambda c: [c.send("exec", L.G_EXIT, exited()), c.send("exec", L.G_STDOUT, b"x")],
    "end_after_exit": lambda c: [c.send("exec", L.G_EXIT, exited()), c.send("exec", L.G_END, end(400))],
    "exit_short": lambda c: c.send("exec", L.G_EXIT, exited()[:-1]),
    "exit_long": lambda c: c.send("exec", L.G_EXIT, exited() + b"\0"),
    "exit_code_256": lambda c: c.send("exec", L.G_EXIT, exited(256)),
    "exit_code_negative": lambda c: c.send("exec", L.G_EXIT, exited(-1)),
    "exit_duration_negative": lambda c: c.send("exec", L.G_EXIT, exited(duration_us=-1)),
    "exit_memory_negative": lambda c: c.send("exec", L.G_EXIT, exited(peak_memory_bytes=-2)),
    "exit_cpu_negative": lambda c: c.send("exec", L.G_EXIT, exited(cpu_us=-(1 << 63))),
    "exit_bool": lambda c: c.send("exec", L.G_EXIT, exited(timed_out=2)),
    "exit_signal": lambda c: c.send("exec", L.G_EXIT, exited(signal=65)),
    "end_200_for_exec": lambda c: c.send("exec", L.G_END, end(200)),
    "end_status_302": lambda c: c.send("exec", L.G_END, end(302)),
    "end_status_0": lambda c: c.send("exec", L.G_END, end(0)),
    "end_416_for_exec": lambda c: c.send("exec", L.G_END, end(416, 5)),
    "end_text_long": lambda c: c.send("exec", L.G_END, end(400, 0, b"x" * 4097)),
    "end_short": lambda c: c.send("exec", L.G_END, b"x"),
    "data_on_exec": lambda c: c.send("exec", L.G_DATA, b"x"),
    "meta_on_exec": lambda c: c.send("exec", L.G_META, meta(1)),
    "entry_on_exec": lambda c: c.send("exec", L.G_ENTRY, entry(b"a")),
    "stdout_over_credit": lambda c: [c.send("exec", L.G_STDOUT, b"x" * 65536) for _ in range(8)],
    "stderr_over_credit": lambda c: [c.send("exec", L.G_STDERR, b"x" * 65535) for _ in range(8)],
    "window_nobody_took": lambda c: c.send("exec", L.G_WINDOW, window(1)),
    "window_zero": lambda c: c.send("exec", L.G_WINDOW, window(0)),
    "window_max": lambda c: c.send("exec", L.G_WINDOW, window(0xFFFFFFFF)),
    "window_on_read": lambda c: c.send("read", L.G_WINDOW, window(1)),
    # files
    "exit_on_read": lambda c: c.send("read", L.G_EXIT, exited()),
    "started_on_read": lambda c: c.send("read", L.G_STARTED),
    "started_on_list": lambda c: c.send("list", L.G_STARTED),
    "read_data_before_meta": lambda c: c.send("read", L.G_DATA, b"x"),
    "read_end_before_meta": lambda c: c.send("read", L.G_END, end(200)),
    "read_more_than_meta": lambda c: [c.send("read", L.G_META, meta(5)), c.send("read", L.G_DATA, b"x" * 6)],
    "read_meta_twice": lambda c: [c.send("read", L.G_META, meta(5)), c.send("read", L.G_META, meta(5))],
    "read_count": lambda c: [c.send("read", L.G_META, meta(5)), c.send("read", L.G_DATA, b"x" * 5), c.send("read", L.G_END, end(200, 6))],
    "read_over_max": lambda c: c.send("read", L.G_META, meta(1001)),
    "meta_size_negative": lambda c: c.send("read", L.G_META, meta(-1)),
    "meta_length_negative": lambda c: c.send("read", L.G_META, meta(5, length=-1)),
    "meta_first_negative": lambda c: c.send("read", L.G_META, meta(5, first=-1)),
    "meta_beyond": lambda c: c.send("read", L.G_META, meta(5, first=3, length=3)),
    "meta_overflow": lambda c: c.send("read", L.G_META, meta((1 << 63) - 1, first=(1 << 63) - 1, length=100)),
    "meta_mode": lambda c: c.send("read", L.G_META, meta(5, mode=0o100644)),
    "meta_type": lambda c: c.send("read", L.G_META, meta(5, type=9)),
    "meta_short": lambda c: c.send("read", L.G_META, b"x"),
    "end_416_negative": lambda c: c.send("read", L.G_END, end(416, -5)),
    "end_416_for_list": lambda c: c.send("list", L.G_END, end(416, 5)),
    "write_meta_before_end": lambda c: [c.send("write", L.G_STARTED), c.send("write", L.G_META, meta(5))],
    "write_end_before_end": lambda c: [c.send("write", L.G_STARTED), c.send("write", L.G_END, end(200, 0))],
    "write_data_outwards": lambda c: [c.send("write", L.G_STARTED), c.send("write", L.G_DATA, b"x")],
    "put_end_before_end": lambda c: [c.send("put", L.G_STARTED), c.send("put", L.G_END, end(200, 0))],
    "get_data_before_started": lambda c: c.send("get", L.G_DATA, b"x"),
    "get_end_before_started": lambda c: c.send("get", L.G_END, end(200)),
    "get_count": lambda c: [c.send("get", L.G_STARTED), c.send("get", L.G_DATA, b"x"), c.send("get", L.G_END, end(200, 2))],
    "entry_slash": lambda c: c.send("list", L.G_ENTRY, entry(b"a/b")),
    "entry_nul": lambda c: c.send("list", L.G_ENTRY, entry(b"a\0b")),
    "entry_dot": lambda c: c.send("list", L.G_ENTRY, entry(b".")),
    "entry_dotdot": lambda c: c.send("list", L.G_ENTRY, entry(b"a") + entry(b"..")),
    "entry_empty_name": lambda c: c.send("list", L.G_ENTRY, entry(b"")),
    "entry_long_name": lambda c: c.send("list", L.G_ENTRY, entry(b"x" * 256)),
    "entry_name_beyond": lambda c: c.send("list", L.G_ENTRY, entry(b"a", name_len=200)),
    "entry_name_65535": lambda c: c.send("list", L.G_ENTRY, entry(b"a", name_len=65535)),
    "entry_padding": lambda c: c.send("list", L.G_ENTRY, entry(b"a")[:-1] + b"x"),
    "entry_cut": lambda c: c.send("list", L.G_ENTRY, entry(b"a")[:-1]),
    "entry_size_negative": lambda c: c.send("list", L.G_ENTRY, entry(b"a", size=-1)),
    "entry_type": lambda c: c.send("list", L.G_ENTRY, entry(b"a", type=4)),
    "entry_mode": lambda c: c.send("list", L.G_ENTRY, entry(b"a", mode=0o10000)),
    "entry_over_credit": lambda c: [c.send("list", L.G_ENTRY, entry(b"abcdefgh") * 2048) for _ in range(8)],
    "entry_empty": lambda c: c.send("list", L.G_ENTRY),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_frame_ends_the_session_with_502_and_nothing_else(name):
    with Session() as s:
        c = Case(s)
        WRONG[name](c)
        ended, down = {}, False
        while len(ended) < len(c.ids) or not down:
            m = s.manager.recv()
            down = down or m.name == "S_DOWN"
            if m.name == "S_JOB_END":
                assert m.id not in ended
                ended[m.id] = m.fields["status"]
        first_is_fine = name in ("exit_twice", "stdout_after_exit", "end_after_exit")
        assert all(v == 502 or (first_is_fine and k == c.ids["exec"]) for k, v in ended.items()), ended
        for kind, client in c.clients.items():
            record = client.all()[-1]
            if not (first_is_fine and kind == "exec"):
                assert error_of(record) == (502, "the engine lost sandbox sb_0000000000000abc")
        assert s.alive()
        s.manager.close()
        assert s.wait() == 0


def test_stream_cut_inside_a_frame_is_an_end_like_any_other():
    with Session() as s:
        _, client, channel = s.started()
        s.guest.raw(layout.frame(layout.G_STDOUT, channel, b"x" * 1000)[:500])
        s.guest.close()
        assert s.down()
        assert error_of(client.recv())[0] == 502


@pytest.mark.parametrize(
    "header", [b"\3\0\0\0\0\0\0\1", b"\0\0\0\0\0\0\0\1", b"\1\1\0\0\0\0\0\1", b"\1\0\0\0\xff\xff\xff\xff", b"ASf1ASf1"]
)
def test_nonsense_in_the_engines_framing_ends_the_session(header):
    with Session(framing=layout.GUEST_STDCOPY) as s:
        _, client, _ = s.started()
        s.guest.sock.sendall(header + b"x" * 100)
        assert s.down()
        assert error_of(client.recv())[0] == 502
        assert s.alive()


def test_frames_that_cross_our_close_are_no_breach():
    with Session() as s:
        id, client = s.job("S_READ", {"max": 1000}, b"/f")
        channel, _, _ = s.guest.expect_file(layout.G_READ)
        client.close()
        s.guest.expect(layout.G_CLOSE, channel)
        s.guest.send(layout.G_META, channel, meta(5))
        s.guest.send(layout.G_DATA, channel, b"x" * 5)
        s.guest.send(layout.G_END, channel, end(200, 5))
        s.job_end(id, 499)
        s.started()


def test_guest_that_never_ends_what_was_closed_loses_the_session():
    with Session() as s:
        _, client = s.job("S_READ", {"max": 1000}, b"/f")
        channel, _, _ = s.guest.expect_file(layout.G_READ)
        client.close()
        s.guest.expect(layout.G_CLOSE, channel)
        assert s.manager.recv_until("S_DOWN", timeout=30)


def test_random_frames_never_kill_the_process():
    rng = random.Random(5)
    types = [v for k, v in layout.CONST.items() if k.startswith("G_") and not k.startswith("G_FLAG")]
    for _ in range(60):
        with Session() as s:
            c = Case(s)
            channels = [0, *c.ch.values()]
            for _ in range(200):
                data = rng.choice(
                    [b"", rng.randbytes(rng.choice([4, 8, 16, 24, 40, 48])), end(200), exited(), meta(5), entry(b"a"), window(5)]
                )
                try:
                    s.guest.send(rng.choice(types), rng.choice(channels), data)
                except (BrokenPipeError, ConnectionResetError):
                    break
            assert s.down()
            s.manager.close()
            assert s.wait() == 0


def test_jobs_of_a_dead_session_leave_no_memory_and_no_descriptors():
    with Session() as s:
        before = s.nfds()
        c = Case(s)
        c.send(65, layout.G_STDOUT, b"x")
        s.down()
        for client in c.clients.values():
            client.close()
        assert wait_until(lambda: s.nfds() == before - 1)
        assert s.alive()


def alternating(channel, credit):
    pair = layout.frame(layout.G_STDOUT, channel, b"x") + layout.frame(layout.G_STDERR, channel, b"x")
    return pair * (credit // 2), credit // 2 * 2


def entries(channel, credit):
    one = entry(b"8 bytes.")
    n = min(credit, 65536) // len(one)
    return layout.frame(layout.G_ENTRY, channel, one * n), n * len(one)


@pytest.mark.parametrize("kind", ["exec", "list"])
def test_records_longer_than_their_credit_take_bounded_memory_for_a_client_that_reads_slowly(kind):
    with Session() as s:
        if kind == "exec":
            _, client, channel = s.started()
        else:
            _, client = s.job("S_LIST", {}, b"/workspace/f")
            channel, _, _ = s.guest.expect_file(layout.G_LIST)
        make, total = (alternating, 3_000_000) if kind == "exec" else (entries, 40_000_000)
        credit, said, peak, before = layout.GUEST_WINDOW, 0, 0, s.pss_kb()["Pss_Anon"]
        while said < total:
            while credit >= 64:
                data, n = make(channel, credit)
                s.guest.raw(data)
                credit, said = credit - n, said + n
            peak = max(peak, s.pss_kb()["Pss_Anon"] - before)
            while credit < 64:
                if not s.guest.rest and not select.select([s.guest.sock], [], [], 0.0005)[0]:
                    ready = select.select([client.sock, s.guest.sock], [], [], 30)[0]
                    assert ready, "credit was lost"
                    if client.sock in ready:
                        client.sock.recv(8192)
                    continue
                got, ch, body = s.guest.recv()
                assert (got, ch) == (layout.G_WINDOW, channel)
                credit += struct.unpack("<II", body)[0]
        assert peak < 6 * 1024, f"{peak} KiB"
