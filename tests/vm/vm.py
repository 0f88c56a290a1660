"""A virtual machine under qemu: Debian 12 with its own kernel, systemd, cgroup v2 and AppArmor, on a disk that is never changed.

Its hardware is /dev/kvm's where that works, else emulated and some thirty times slower; all deadlines know. It shares one folder with the
test outside, and has a network that leads to nowhere; one of its ports is reachable from here.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from machine import free_port  # noqa: E402

BOOT = 90  # seconds, with hardware; as all deadlines here
# What a machine without these devices and without a history need not spend minutes on, where it is emulated.
KERNEL = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet systemd.show_status=0 mitigations=off "
    "module_blacklist=ata_piix,ata_generic,psmouse,parport_pc,floppy,drm,bochs,i2c_piix4,pcspkr,joydev,evdev "
    "systemd.mask=sys-kernel-debug.mount systemd.mask=sys-kernel-tracing.mount systemd.mask=apt-daily.timer "
    "systemd.mask=apt-daily-upgrade.timer systemd.mask=e2scrub_all.timer systemd.mask=e2scrub_reap.service systemd.mask=fstrim.timer"
)
ACCELERATORS = {"kvm": ("kvm", 1), "tcg": ("tcg,thread=multi", 30)}


class Result:
    def __init__(self, status, out):
        self.status, self.out = status, out

    def __repr__(self):
        return f"status {self.status}:\n{self.out[-3000:]}"


class VmError(Exception):
    pass


class Vm:
    """dir holds the shared folder, the console's log and the control socket."""

    def __init__(self, disk, dir, accelerator):
        self.disk, self.dir, self.accelerator = Path(disk), Path(dir), accelerator
        self.qemu_accel, self.scale = ACCELERATORS[accelerator]
        self.share = self.dir / "share"
        self.share.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.count, self.rest, self.process, self.control = 0, b"", None, None

    def _command(self):
        return [
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-accel", self.qemu_accel, "-cpu", "max",
            "-smp", "2", "-m", "2048", "-kernel", f"{self.disk}.kernel", "-initrd", f"{self.disk}.initrd",
            "-append", KERNEL,
            "-drive", f"file={self.disk},format=raw,if=virtio,snapshot=on",
            "-virtfs", f"local,path={self.share},mount_tag=share,security_model=none",
            "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-10.0.2.15:8443",
            "-device", "virtio-net-pci,netdev=net,romfile=", "-object", "rng-random,id=rng,filename=/dev/urandom",
            "-device", "virtio-rng-pci,rng=rng", "-serial", f"file:{self.dir}/console", "-device", "virtio-serial",
            "-chardev", f"socket,id=control,path={self.dir}/control,server=on,wait=on", "-device", "virtserialport,chardev=control,name=control",
        ]  # fmt: skip

    def start(self):
        log = open(self.dir / "qemu.log", "ab")
        env = os.environ | {"TMPDIR": str(self.dir)}  # what the machine writes on its disk, qemu keeps there
        self.process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        began = time.monotonic()
        end = began + 30
        self.control = socket.socket(socket.AF_UNIX)
        while True:
            with contextlib.suppress(OSError):
                self.control.connect(str(self.dir / "control"))
                break
            if self.process.poll() is not None or time.monotonic() > end:
                raise VmError("qemu does not start: " + (self.dir / "qemu.log").read_text(errors="replace")[-1000:])
            time.sleep(0.05)
        self.await_ready()
        self.boot_seconds = time.monotonic() - began
        return self

    def await_ready(self):
        while self._line(BOOT).split()[0] != "ready":
            pass

    def _line(self, seconds):
        """The next line of the machine's agent."""
        end = time.monotonic() + seconds * self.scale
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.control], [], [], max(left, 0))
            data = self.control.recv(4096) if ready else b""
            if not data:
                raise VmError(f"the machine says nothing{'' if left > 0 else ' for too long'}: {self.console()}")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace") or " "

    def console(self):
        text = (self.dir / "console").read_text(errors="replace") if (self.dir / "console").exists() else ""
        return text[-2000:] + (self.dir / "qemu.log").read_text(errors="replace")[-500:]

    def run(self, script, seconds=30):
        """Runs a shell script as root in the machine."""
        self.count += 1
        (self.share / f"{self.count}.sh").write_text(script + "\n")
        self.control.sendall(b"%d\n" % self.count)
        number, status = self._line(seconds).split()
        assert number == str(self.count), f"{number} instead of {self.count}"
        return Result(int(status), (self.share / f"{self.count}.out").read_text(errors="replace"))

    def sh(self, script, seconds=30):
        """What a script printed that must succeed."""
        result = self.run(script, seconds)
        assert result.status == 0, f"{script.strip()[:300]}\n{result!r}"
        return result.out

    def until(self, script, seconds=30):
        """Runs it again and again until it succeeds; what it printed."""
        end = time.monotonic() + seconds * self.scale
        while (result := self.run(script, seconds)).status != 0:
            assert time.monotonic() < end, f"never true: {script.strip()[:300]}\n{result!r}"
            time.sleep(0.2)
        return result.out

    def power_cut(self):
        """Off and on again at once; what was not written to the disk is lost."""
        self.control.sendall(b"off\n")
        (self.share / "off.sh").write_text("echo b >/proc/sysrq-trigger\n")
        self.await_ready()

    def stop(self):
        if self.control:
            self.control.close()
        if self.process:
            self.process.kill()
            self.process.wait(30)


def boot(disk, dir):
    """The machine, on hardware where that works."""
    said = []
    for accelerator in [os.environ["VM_ACCEL"]] if os.environ.get("VM_ACCEL") else ACCELERATORS:
        vm = Vm(disk, Path(dir) / accelerator, accelerator)
        try:
            return vm.start()
        except VmError as exc:
            vm.stop()
            said.append(f"{accelerator}: {exc}")
    raise VmError("no virtual machine starts; " + "; ".join(said))
