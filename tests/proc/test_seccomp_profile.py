"""etc/seccomp.txt, the system calls of programs in a sandbox, as the JSON that engines take."""

import json
import subprocess
from pathlib import Path

import pytest

ETC = Path(__file__).resolve().parents[2] / "etc"


def compiled(text, *options):
    return subprocess.run(["awk", *options, "-f", ETC / "seccomp.awk", "-"], input=text, capture_output=True, text=True)


@pytest.fixture(scope="module")
def profile():
    p = compiled((ETC / "seccomp.txt").read_text())
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


def verdict(profile, name, *args):
    """What the kernel will do: 0 allow, else the errno."""
    args = [a & (2**64 - 1) for a in args] + [0] * 6
    for rule in profile["syscalls"]:
        if name in rule["names"] and all(args[c["index"]] & c["value"] == c["valueTwo"] for c in rule["args"]):
            return 0 if rule["action"] == "SCMP_ACT_ALLOW" else rule["errnoRet"]
    return 1


def test_profile_is_one_that_every_engine_reads(profile):
    assert set(profile) == {"defaultAction", "archMap", "syscalls"} and profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert [a["architecture"] for a in profile["archMap"]] == ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]
    assert all(a["subArchitectures"] == [] for a in profile["archMap"]), "no 32-bit and no x32 calls"
    for rule in profile["syscalls"]:
        assert rule["names"] and rule["action"] in ("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO")
        assert ("errnoRet" in rule) == (rule["action"] == "SCMP_ACT_ERRNO")
        assert all(c["op"] == "SCMP_CMP_MASKED_EQ" and c["valueTwo"] & ~c["value"] == 0 for c in rule["args"])
        # several conditions on one argument would be taken for alternatives
        assert len({c["index"] for c in rule["args"]}) == len(rule["args"])
    always = [n for r in profile["syscalls"] if r["args"] == [] for n in r["names"]]
    assert len(always) == len(set(always)), "nothing stands twice"
    assert not any(n in always for r in profile["syscalls"] if r["args"] for n in r["names"])


@pytest.mark.parametrize(
    "name",
    "mount umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr bpf perf_event_open "
    "userfaultfd io_uring_setup io_uring_enter io_uring_register init_module finit_module delete_module kexec_load kexec_file_load reboot "
    "swapon swapoff acct quotactl quotactl_fd settimeofday clock_settime adjtimex clock_adjtime open_by_handle_at add_key keyctl request_key "
    "iopl ioperm vm86 modify_ldt lookup_dcookie move_pages migrate_pages kcmp sethostname setdomainname syslog nfsservctl uselib ustat sysfs "
    "_sysctl fanotify_init vhangup mbind set_mempolicy name_to_handle_at".split(),
)
def test_kernel_doors_are_not_in_it(profile, name):
    assert verdict(profile, name) == 1 and not any(name in r["names"] for r in profile["syscalls"])


@pytest.mark.parametrize(
    "name",
    "read openat execve clone fork futex epoll_wait ptrace process_vm_readv memfd_create statx openat2 getrandom rseq wait4 mknodat setuid".split(),
)
def test_what_programs_need_is_allowed(profile, name):
    assert verdict(profile, name) == 0


NEW = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)


def test_no_namespace_can_be_made_by_clone(profile):
    assert verdict(profile, "clone", 0x01200011) == 0 and verdict(profile, "clone", 0x003D0F00) == 0  # fork, a thread
    for flag in NEW:
        assert verdict(profile, "clone", flag | 17) == 1 and verdict(profile, "clone", flag | 17 | 1 << 40) == 1
    assert verdict(profile, "clone3") == 38


ONES = (1, 0x100000001, -(2**32) + 1, 0xFFFFFFFF00000001)
OTHERS = (0, 2, 3, 17, 1 << 31, 0xFFFFFFFF, 0x100000000, 1000, 0x80000001)


@pytest.mark.parametrize("name", ["sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler"])
def test_pid_1_cannot_be_tuned_however_its_number_is_written(profile, name):
    assert [verdict(profile, name, p) for p in ONES] == [1] * len(ONES)
    assert [verdict(profile, name, p) for p in OTHERS] == [0] * len(OTHERS)


def test_pid_1_cannot_be_tuned_through_its_group_or_user(profile):
    assert [verdict(profile, "ioprio_set", 1, p) for p in ONES] == [1] * len(ONES)
    assert [verdict(profile, "ioprio_set", 1, p) for p in OTHERS] == [0] * len(OTHERS)
    assert [verdict(profile, "ioprio_set", which, p) for which in (0, 2, 3) for p in (0, 5, 1000)] == [1] * 9
    assert verdict(profile, "setpriority", 0, 0, 5) == 0 and verdict(profile, "setpriority", 1 << 32, 0, 5) == 0
    assert [verdict(profile, "setpriority", *a) for a in ((0, 1), (0, 77), (1, 0), (2, 0), (0, 1 << 31))] == [1] * 5


def test_limits_are_set_of_oneself_only(profile):
    assert verdict(profile, "prlimit64", 0, 7) == 0 and verdict(profile, "prlimit64", 1 << 32, 7) == 0
    assert [verdict(profile, "prlimit64", p) for p in (1, 2, 1000, 0x100000001, 0xFFFFFFFF)] == [1] * 5


def test_sockets_are_of_few_families(profile):
    good = [(1, 1, 0), (1, 2, 0), (2, 1, 0), (2, 1, 6), (2, 2, 17), (2, 2, 1), (10, 1, 0), (10, 2, 58), (16, 3, 0), (0x100000002, 1, 6)]
    assert [verdict(profile, "socket", *s) for s in good] == [0] * len(good)
    bad = [(f, 1, 0) for f in range(46) if f not in (1, 2, 10, 16)] + [
        (2, 1, 132),
        (2, 1, 262),
        (2, 2, 136),
        (10, 1, 262),
        (16, 3, 9),
        (16, 3, 15),
    ]
    bad += [(2, 6, 0), (2, 5, 0), (2, 3, 0), (2, 10, 0), (10, 6, 0), (10, 5, 0), (2, 5, 6), (2, 3, 1)]  # types that load modules
    assert [verdict(profile, "socket", *s) for s in bad] == [1] * len(bad)
    assert verdict(profile, "socketpair", 1) == 0 and verdict(profile, "socketpair", 30) == 1


def test_nobody_can_hold_up_who_opens_or_renames_a_file(profile):
    assert [verdict(profile, "fcntl", 3, c) for c in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 36, 37, 38, 1026, 1030, 1031, 1032, 1033, 1034)] == [
        0
    ] * 19
    assert [verdict(profile, "fcntl", 3, c) for c in (1024, 1025, 1040, 1041, 1024 | 1 << 32, 2048)] == [1] * 6


@pytest.mark.parametrize("name", ["setxattr", "lsetxattr", "fsetxattr"])
def test_attributes_are_small(profile, name):
    assert [verdict(profile, name, 0, 0, 0, n) for n in (0, 1, 4095)] == [0] * 3
    assert [verdict(profile, name, 0, 0, 0, n) for n in (4096, 65536, 0xFFFFF000)] == [1] * 3
    assert verdict(profile, "setxattrat") == 38


def test_personalities_are_the_usual_ones(profile):
    assert [verdict(profile, "personality", p) for p in (0, 8, 0x40000, 0xFFFFFFFF)] == [0] * 4
    assert [verdict(profile, "personality", p) for p in (0x0400000, 0x0040008, 1, 4, 0x20000 | 0x400000, 0x100000)] == [1] * 6


@pytest.mark.parametrize(
    "line",
    ["alow read", "allow", "allow READ", "allow read if", "allow read if a6=1", "allow read if a0==1", "allow read if a0=x", "errno clone3", "errno EPERM x",
     "allow read; write", "allow read\nallow read", 'allow a"b', "allow read if a0&3"],
)  # fmt: skip
def test_line_that_is_not_understood_fails_the_build(line):
    assert compiled(line + "\n").returncode != 0


def test_gvisor_gets_the_same_rules_without_what_is_only_for_priorities(profile):
    """Its filters have 4,096 instructions at most."""
    p = compiled((ETC / "seccomp.txt").read_text(), "-v", "sentry=1")
    assert p.returncode == 0, p.stderr
    sentry = json.loads(p.stdout)
    assert sum(len(r["names"]) * (1 + 2 * len(r["args"])) for r in sentry["syscalls"]) < 1000
    names = {n for r in profile["syscalls"] for n in r["names"]}
    assert {n for r in sentry["syscalls"] for n in r["names"]} == names
    free = {"sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "ioprio_set"}
    for name in names - free:
        assert [r for r in sentry["syscalls"] if name in r["names"]] == [r for r in profile["syscalls"] if name in r["names"]], name
    assert verdict(profile, "sched_setaffinity", 1) and not verdict(sentry, "sched_setaffinity", 1)
    assert verdict(sentry, "prlimit64", 1) and verdict(sentry, "unshare") and verdict(sentry, "clone", 0x10000000)
