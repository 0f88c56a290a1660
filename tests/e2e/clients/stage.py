"""A machine on which the snippets of the manual are played as a reader would: alone, with what make run leaves."""

import contextlib
import ctypes
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from harness import BUILD, KEY, ROOT
from llm import KEY as MODEL_KEY
from machine import alive, command_line, everyone, link, send, wait_until
from snippets import RUNNERS, SUFFIX, Snippet, changed, parse, pattern


def in_namespace(pid, call):
    """What call() returns in the network namespace of that process; a socket made there stays there."""
    libc, out = ctypes.CDLL(None, use_errno=True), []

    def run():
        with open(f"/proc/{pid}/ns/net") as ns:
            if libc.setns(ns.fileno(), 0x40000000):
                out.append(OSError(ctypes.get_errno(), "setns"))
                return
        out.append(call())

    t = threading.Thread(target=run)
    t.start()
    t.join()
    if isinstance(out[0], OSError):
        raise out[0]
    return out[0]


class Door(threading.Thread):
    """Takes connections on a loopback port of the stage and passes them on; connect() makes the other end."""

    def __init__(self, pid, port, connect):
        super().__init__(daemon=True)
        self.connect = connect
        self.socket = in_namespace(pid, lambda: socket.create_server(("127.0.0.1", port)))
        self.start()

    def run(self):
        while True:
            try:
                inner, _ = self.socket.accept()
            except OSError:
                return
            outer = self.connect()
            for pair in ((inner, outer), (outer, inner)):
                threading.Thread(target=self.carry, args=pair, daemon=True).start()

    @staticmethod
    def carry(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for s in (source, sink):
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Stage:
    """A machine as far as a snippet can see: its own network (loopback alone), home, and a copy of the tree that is thrown away."""

    OVER = ("/etc", "/usr/local", "/var", str(ROOT))

    def __init__(self, server=None, llm=None, engine=None):
        """server and llm: functions that connect to them."""
        self.dir = Path(tempfile.mkdtemp(prefix="as-stage-"))
        self.dir.chmod(0o755)
        self.shared = self.dir.with_name(self.dir.name + "-files")
        self.doors, self.states = [], {}
        mounts = "".join(
            f"mkdir -p $d/{i}/up $d/{i}/work; mount -t overlay stage -o lowerdir={p},upperdir=$d/{i}/up,workdir=$d/{i}/work {p}; "
            for i, p in enumerate(self.OVER)
        )
        script = f"set -e; d={self.dir}; mount -t tmpfs stage $d; mount -t tmpfs stage /run; {mounts} mkdir $d/home; cd {ROOT}; ip link set lo up; "
        script += "rm -f build/clients/agent*; "
        script += f"find {BUILD} -maxdepth 1 -type f -perm -100 -exec cp -t build {{}} +; " if BUILD != ROOT / "build" else ""
        script += (
            f"ln -s {engine.sock} /run/docker.sock; ln -sfn /run /var/run; rm -rf build/run /var/lib/agent-sandbox*; " if engine else ""
        )
        script += "echo ready; exec sleep infinity"
        self.holder = subprocess.Popen(["unshare", "-n", "-m", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            shutil.rmtree(self.dir, ignore_errors=True)
            raise RuntimeError("no stage: it needs root, and overlay mounts in a namespace of its own")
        if server:
            self.doors.append(Door(self.holder.pid, 8080, server))
            self.run_script(f"mkdir -p build/run; umask 077; printf %s {KEY} >build/run/key")
        if llm:
            self.doors.append(Door(self.holder.pid, 8099, llm))

    def environment(self):
        site = next((ROOT / "build/venv/lib").glob("python3*")) / "site-packages"
        return {
            "PATH": f"{self.dir}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": f"{self.dir}/home", "LC_ALL": "C.UTF-8", "USER": "root", "SAN": os.environ.get("SAN", ""),
            # What a reader's pip would fetch is there already, in the tests' environment; nothing is ever fetched.
            "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1",
            "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore",
            "npm_config_offline": "true", "npm_config_audit": "false", "npm_config_fund": "false", "npm_config_update_notifier": "false",
            "OPENAI_BASE_URL": "http://127.0.0.1:8099/v1", "OPENAI_API_KEY": MODEL_KEY,
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:8099", "ANTHROPIC_API_KEY": MODEL_KEY,
        }  # fmt: skip

    def start(self, script, **more):
        """A shell on the stage, in the tree."""
        tools = f"mkdir -p {self.dir}/bin; for t in node npm npx; do ln -sf {ROOT}/build/venv/bin/$t {self.dir}/bin/; done; "
        command = ["nsenter", f"-t{self.holder.pid}", "-n", "-m", "--", "sh", "-c", f'cd {ROOT}; {tools} exec sh -c "$0"', script]
        return subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True, **more)  # fmt: skip

    def run_script(self, script, seconds=120):
        """(exit status, all that it printed)"""
        p = self.start(script)
        try:
            out, _ = p.communicate(timeout=seconds)
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            out, _ = p.communicate(timeout=60)
            print(out)
            raise
        return p.returncode, out

    def place(self):
        """A folder that the stage and the test both see, outside of the stage's own file systems."""
        self.shared.mkdir(exist_ok=True)
        return Path(tempfile.mkdtemp(dir=self.shared))

    def run(self, section, seconds=280):
        """All snippets of a section, in one shell, after those that it needs; what each printed is compared with its output fence."""
        begin = self.state(section.needs)
        status, out, parts = self.play(section.snippets, begin, seconds)
        shown = [s for s in section.snippets if s.kind != "output"]
        assert status == 0, f"{shown[len(parts) - 1]} ended with {status}:\n{out}"
        last = None
        for s in section.snippets:
            if s.kind != "output":
                last = shown.index(s)
                continue
            printed = parts[last].rstrip("\n") + "\n"
            assert pattern(s.text).fullmatch(printed), f"{s}: it says\n{s.text}\nbut the snippet prints\n{printed}"
        for s, part in zip(shown, parts, strict=True):
            told = any(o.kind == "output" and o.text.count('"error"') for o in section.snippets)
            assert told or '{"error":' not in part.replace(" ", ""), f"{s} prints an error:\n{part}"

    def play(self, snippets, begin, seconds):
        place, script = self.place(), f"set -e\n{begin}\n"
        for i, s in enumerate(x for x in snippets if x.kind != "output"):
            script += f"printf '\\036{i}\\n'\n" + self.shell(place, i, s)
        status, out = self.run_script(script, seconds)
        return status, out.replace("\036", "\n== "), re.split(r"\036\d+\n", out)[1:]

    def shell(self, place, i, s):
        """The shell's lines for what a reader does with this snippet."""
        if s.kind in ("tested by", "until") or (not s.language and not s.kind):
            return ""
        if s.language == "sh" and s.kind in ("", "setup"):
            return s.text
        saved = place / str(i)
        saved.write_text(changed(s.text, "-") if s.language == "diff" else s.text)
        if s.kind in ("file", "mcp"):
            name = "~/" + shlex.quote(s.argument[2:]) if s.argument.startswith("~/") else shlex.quote(s.argument)
            lines = f'mkdir -p "$(dirname {name})" && cp {saved} {name}\n'
            tell = Path(__file__).parent / "mcp_config.py"
            return lines + (f"{ROOT}/build/venv/bin/python {tell} {name}\n" if s.kind == "mcp" else "")
        name = f"snippet-{i}.{SUFFIX[s.language]}"
        run = f"{RUNNERS[s.language]} ./{name}"
        if s.language == "diff":
            old = place / f"{i}-old"
            old.write_text(changed(s.text, "+"))
            return f"for f in {old} {saved}; do cp $f ./{name}; {run} >$f.out; done; rm ./{name}; diff {old}.out {saved}.out; cat {saved}.out\n"
        return f"cp {saved} ./{name} && {run} && rm ./{name}\n"

    def state(self, needs):
        """Shell lines that bring a shell to where those sections leave it; they are run once."""
        if not needs:
            return ""
        if needs not in self.states:
            sections = {str(s): s for page in dict.fromkeys(n.split("#")[0] for n in needs) for s in parse(page)}
            snippets = [x for n in needs for x in sections[n].snippets]
            place = self.place()
            keep = Snippet("", 0, "sh", f"export -p >{place}/env; pwd >{place}/cwd\n")
            status, out, _ = self.play([*snippets, keep], "", 300)
            assert status == 0, f"{needs}: {status}\n{out}"
            self.states[needs] = f'. {place}/env; cd "$(cat {place}/cwd)"'
        return self.states[needs]

    def run_until(self, snippet, seconds=90):
        """A snippet that goes on for ever, until its condition holds; Ctrl-C ends it."""
        p = self.start("set -e\n" + snippet.text)
        printed = []
        reader = threading.Thread(target=lambda: printed.append(p.stdout.read()), daemon=True)
        reader.start()
        try:
            held = wait_until(lambda: p.poll() is not None or self.run_script(snippet.argument)[0] == 0, seconds, 0.5)
            assert held and p.poll() is None, "it ended" if held else "not in time"
            os.killpg(p.pid, signal.SIGINT)
            p.wait(30)
        finally:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
            p.wait(30)
            reader.join(30)
            print("".join(printed))
        return p.returncode

    def close(self):
        for d in self.doors:
            d.close()
        mine = os.readlink(f"/proc/{self.holder.pid}/ns/net")
        told = []
        for p in everyone():
            if p != self.holder.pid and link(p, "ns/net") == mine and alive(p):
                what = command_line(p)
                if send(p):
                    told.append(what)
        self.holder.kill()
        self.holder.wait()
        shutil.rmtree(self.shared, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)
        assert not told, f"left running: {told}"
