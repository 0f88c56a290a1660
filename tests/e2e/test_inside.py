"""What code inside a sandbox can see and do."""

import json

import pytest
from harness import GVISOR, at_once
from machine import wait_until

pytestmark = pytest.mark.core


def test_commands_and_pid_1_have_no_rights_at_all(box):
    said = box.sh("id -u; id -g; id -G; grep -hE '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status /proc/1/status").splitlines()
    assert said[:3] == ["1000", "1000", "1000"]
    kinds, rest = ["Inh", "Prm", "Eff", "Bnd", "Amb"], ["NoNewPrivs:\t1", "Seccomp:\t2"]
    if GVISOR:  # it has no lines for these two
        kinds.pop(), rest.pop(0)
    assert said[3:] == ([f"Cap{k}:\t{'0' * 16}" for k in kinds] + rest) * 2
    assert box.python("import ctypes; print(ctypes.CDLL(None).prctl(39, 0, 0, 0, 0))") == "1\n", "no_new_privs"


def test_only_workspace_and_tmp_can_be_written(box):
    for place in ("/", "/etc", "/usr/bin", "/root", "/var/tmp", "/run", "/proc", "/sys", "/.agent-sandbox", "/home"):
        assert box.exec(["touch", place + "/probe"])["exit_code"] == 1, place
    box.sh("touch /workspace/w /tmp/t")
    mounts = {m.split()[1]: m.split()[3].split(",") for m in box.sh("cat /proc/mounts").splitlines()}
    assert "ro" in mounts["/"] and (GVISOR or {"nosuid", "nodev"} <= set(mounts["/tmp"]))


def test_there_is_no_network_and_no_way_to_make_one(box):
    source = """
import socket
print([n for _, n in socket.if_nameindex()])
for a in ('1.1.1.1', '169.254.169.254', '172.17.0.1', '10.0.0.1', 'fd00::1'):
    s = socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET, socket.SOCK_STREAM); s.settimeout(1)
    try: s.connect((a, 80)); print('reached', a)
    except OSError: pass
for args in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_NETLINK, socket.SOCK_RAW, 15)):
    try: s = socket.socket(*args); args[0] != socket.AF_NETLINK and print('made', args)
    except OSError: pass
try: socket.getaddrinfo('example.com', 80); print('resolved')
except OSError: pass
"""
    assert box.python(source) == "['lo']\n"


CALLS = """
import ctypes
c = ctypes.CDLL(None, use_errno=True)
calls = dict(unshare_user=(272, 0x10000000), unshare_mount=(272, 0x20000), unshare_net=(272, 0x40000000), mount=(165, b'/', b'/mnt', b'', 4096, 0),
  umount=(166, b'/workspace', 2), pivot_root=(155, b'/', b'/tmp'), chroot=(161, b'/tmp'), setns=(308, 0, 0), bpf=(321, 0, 0, 0), keyctl=(250, 0, -3, 0),
  add_key=(248, b'user', b'k', b'v', 1, -3), perf=(298, 0, 0, -1, -1, 0), init_module=(175, 0, 0, b''), kexec=(246, 0, 0, 0, 0), reboot=(169, 1, 2, 3, 0),
  sethostname=(170, b'x', 1), swapon=(167, b'/tmp/x', 0), acct=(163, b'/tmp/a'), uffd=(323, 0), handle=(304, -1, 0, 0), io_uring=(425, 4, 0), setuid=(105, 0),
  settime=(164, 0, 0), iopl=(172, 3), open_tree=(428, -100, b'/', 1), fsopen=(430, b'tmpfs', 0), ptrace_1=(101, 16, 1, 0, 0),
  move_pages_1=(279, 1, 1, 0, 0, 0, 0), migrate_1=(256, 1, 1, 0, 0), kcmp_1=(312, 1, 1, 0, 0, 0))
for name, (number, *args) in calls.items():
    got = c.syscall(number, *[ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) for a in args])
    if got >= 0: print(name, got)
"""


def test_kernel_doors_are_shut(box):
    assert box.python(CALLS) == ""


DISABLE = """
import ctypes, os, struct
c = ctypes.CDLL(None, use_errno=True)
def call(number, *args): return c.syscall(number, *[ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a for a in args])
one = struct.pack('QQ', 1, 1)
for r in range(16):
    if call(302, 1, r, one, 0) == 0: print('prlimit', r)
param = struct.pack('i', 0)
for policy in (0, 3, 5):
    if call(144, 1, policy, param) == 0: print('sched_setscheduler', policy)
if call(142, 1, param) == 0: print('sched_setparam')
if call(203, 1, 8, struct.pack('Q', 1)) == 0: print('sched_setaffinity')
if call(314, 1, struct.pack('IIQiIQQQ', 48, 5, 0, 0, 0, 0, 0, 0), 0) == 0: print('sched_setattr')
if call(251, 1, 1, (3 << 13)) == 0: print('ioprio_set')
if call(141, 0, 1, 19) == 0: print('setpriority pid')
if call(141, 2, 1000, 19) == 0: print('setpriority user')
if call(141, 1, 1, 19) == 0: print('setpriority group')
for s in range(1, 65):
    try: os.kill(1, s)
    except OSError: pass
for p, flags in (('oom_score_adj', os.O_WRONLY), ('mem', os.O_RDWR), ('clear_refs', os.O_WRONLY), ('timerslack_ns', os.O_WRONLY), ('autogroup', os.O_WRONLY),
                 ('coredump_filter', os.O_WRONLY), ('environ', os.O_RDONLY), ('maps', os.O_RDONLY), ('stack', os.O_RDONLY)):
    try: fd = os.open('/proc/1/' + p, flags); os.read(fd, 1) if flags == os.O_RDONLY else os.write(fd, b'0'); print('opened', p)
    except OSError: pass
try: os.listdir('/proc/1/fd'); print('listed')
except OSError: pass
print('end')
"""


@pytest.mark.not_gvisor("PID 1 can be ended from inside; test_gvisor.py has what that costs")
def test_pid_1_cannot_be_disabled_traced_or_tuned(make):
    b = make(memory_mb=64)
    assert b.python(DISABLE) == "end\n"
    assert b.sh("echo alive") == "alive\n"
    b.put("f", b"1")
    assert b.names() == ["f"]


def test_killing_everything_including_the_supervisors_ends_execs_with_137_and_no_more(make):
    b = make(memory_mb=64)

    def killer():
        assert wait_until(lambda: b.running("2020.5") == 1)
        return b.exec("kill -9 -1; sleep 5", timeout_seconds=8)

    waiting, _ = at_once([lambda: b.exec("sleep 2020.5; echo no", timeout_seconds=50), killer])
    assert waiting["exit_code"] == 137 and not waiting["timed_out"] and waiting["stdout"] == ""
    assert b.sh("echo on") == "on\n"


def test_no_lease_holds_up_pid_1(box):
    """Who opens a file with a lease of somebody else on it waits up to 45 s."""
    source = "import fcntl\nf = open('L', 'w')\nfor c in (fcntl.F_SETLEASE, 1040):\n try: fcntl.fcntl(f, c, fcntl.F_WRLCK); print('held', c)\n except OSError: pass"
    assert box.python(source) == ""


def test_stopping_everything_else_does_not_stop_the_sandbox(make):
    b = make(memory_mb=64)
    events = b.stream("kill -STOP -1; echo on; sleep 99", timeout_seconds=9)
    events.next()
    assert b.sh("echo still") == "still\n"
    last = events.all()[-1]
    assert last["type"] == "exit" and last["exit_code"] == 137


@pytest.mark.not_gvisor("what PID 1 has open can be written to; test_gvisor.py has what that costs")
def test_end_of_another_exec_cannot_be_forged(make):
    b = make(memory_mb=64)
    source = """
import os, struct, zlib
# Whatever this process can reach of others: pipes in /proc/*/fd, the stream of PID 1, a terminal.
frame = b'\\x41\\x53\\x66\\x31' + b'\\x45' + b'\\0' * 60
n = 0
for p in os.listdir('/proc'):
    if p.isdigit() and int(p) != os.getpid():
        for fd in range(0, 64):
            try:
                f = os.open(f'/proc/{p}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK); os.write(f, frame); os.close(f); n += 1
            except OSError: pass
open('forged', 'w')
"""
    waits = "while [ ! -e forged ]; do sleep 0.1; done; exit 7"
    waiting, _ = at_once([lambda: b.exec(waits, timeout_seconds=40), lambda: b.exec(["python3", "-c", source])])
    assert (waiting["exit_code"], waiting["timed_out"]) == (7, False)
    assert b.sh("echo fine") == "fine\n"


@pytest.mark.not_gvisor("it does not count these, so they are not used up")
def test_inotify_instances_and_pipe_pages_used_up_do_not_stop_execs(make, box):
    b = make()
    hog = """
import ctypes, os, time, fcntl
c = ctypes.CDLL(None)
n = 0
while c.inotify_init1(0) >= 0: n += 1
for _ in range(3000):
    try:
        r, w = os.pipe(); os.set_blocking(w, False); fcntl.fcntl(w, 1031, 1 << 20)
    except OSError: pass
    try: os.write(w, b'x' * 65536) if _ < 200 else None
    except OSError: break
print('full', flush=True)
time.sleep(60)
"""
    events = b.stream(["python3", "-c", hog])
    assert events.next()["data"] == "full\n"
    for each in (b, box):
        assert each.sh("echo works | cat") == "works\n"
        each.put("f", b"x" * 300_000)
        assert len(each.content("f")) == 300_000
    events.close()


def test_descriptors_used_up_inside_do_not_stop_the_sandbox(make):
    b = make(memory_mb=128)
    events = b.stream(
        [
            "python3",
            "-c",
            "import os,time\nfds=[]\ntry:\n while 1: fds.append(os.open('/dev/null',0))\nexcept OSError: print('full',flush=True)\ntime.sleep(60)",
        ]
    )
    assert events.next()["data"] == "full\n"
    assert b.sh("echo works") == "works\n"
    events.close()


def test_nothing_of_the_host_is_visible(server, box):
    found = box.exec(
        "ls -d /var/run/docker.sock /run/docker.sock /run/containerd /dev/sd* /dev/vd* /dev/nvme* /dev/mem /dev/kmsg /dev/kvm /dev/fuse 2>/dev/null"
    )
    assert found["stdout"] == ("/dev/fuse\n" if GVISOR else ""), "that device is of the sandbox's own kernel"
    text = box.python(
        "import glob\nfor p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + ['/proc/mounts']:\n"
        " try: print(open(p, errors='replace').read())\n except OSError: pass"
    )
    assert "AGENT_SANDBOX" not in text and "e2e-key" not in text and "DOCKER" not in text
    assert box.sh("cat /proc/sys/kernel/hostname") == "sandbox\n"
    assert int(box.python("import glob; print(len(glob.glob('/proc/[0-9]*')))")) < 12


@pytest.mark.not_gvisor("nodes of devices that do not exist can be made, and the environment of PID 1, which has no secrets, be read")
def test_kernel_settings_cannot_be_written_nor_secrets_read(box):
    source = """
import os
for p in ('/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern', '/proc/sys/vm/overcommit_memory', '/sys/fs/cgroup/release_agent', '/sys/power/state'):
    try: os.write(os.open(p, os.O_WRONLY), b'1'); print('wrote', p)
    except OSError: pass
for p in ('/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware/dmi/tables/DMI', '/etc/shadow', '/proc/1/environ'):
    try:
        if os.read(os.open(p, os.O_RDONLY | os.O_NONBLOCK), 8): print('read', p)
    except OSError: pass
for kind, dev in ((0o60000, (8, 0)), (0o20000, (1, 1))):
    for d in ('/tmp', '/workspace', '/dev/shm'):
        try: os.mknod(d + '/n', kind | 0o666, os.makedev(*dev)); print('made', d)
        except OSError: pass
"""
    assert box.python(source) == ""


def test_set_id_files_give_no_rights(box):
    box.sh("cp /bin/sh s; chmod 6755 s")
    assert box.sh("./s -p -c 'id -u; id -g'").split() == ["1000", "1000"]


def test_init_file_cannot_be_read_or_replaced_to_matter(box):
    assert box.exec("echo x > /.agent-sandbox/init")["exit_code"] != 0
    assert box.exec("rm -rf /.agent-sandbox; mv /.agent-sandbox /workspace/x")["exit_code"] != 0


def test_terminal_and_session_of_a_command_are_its_own(box):
    assert json.loads(box.python("import os,json; print(json.dumps([os.isatty(i) for i in (0,1,2)]))")) == [False] * 3
    box.sh("setsid sleep 7171.5 >/dev/null 2>&1 & exit 0")
    assert wait_until(lambda: box.running("7171.5") == 1)


def test_escape_self_test_of_a_fresh_sandbox_with_a_writable_root(make):
    b = make(read_only_rootfs=False, memory_mb=128)
    assert b.python(CALLS) == ""
    said = b.sh("grep -hE '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status").split()
    assert said == ["CapBnd:", "0" * 16, *([] if GVISOR else ["NoNewPrivs:", "1"]), "Seccomp:", "2"]
    assert b.exec("echo x > /etc/probe")["exit_code"] != 0, "the root's files belong to root"
