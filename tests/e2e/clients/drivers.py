"""Four ways to the same server, behind one interface: the command, the Python SDK blocking and asyncio, the TypeScript SDK.

A driver has a method call(NAME, **arguments) that gives the API's own JSON, and raises Failure. Names: health create get list_sandboxes
refresh destroy set_timeout exec exec_stream read_file read_text write_file list_files upload download upload_folder download_folder
snapshot list_snapshots get_snapshot delete_snapshot rollback fork run. exec_stream calls events(event) for each event.
"""

import asyncio
import base64
import dataclasses
import json
import os
import re
import subprocess
import threading
from pathlib import Path

import agent_sandbox_sdk as sdk
from front import FRONT
from harness import BUILD, ROOT

NODE = ROOT / "build/venv/bin/node"


class Failure(Exception):
    """types: what it may be, as exactly as the driver can tell: api config unreachable broken strange timeout interrupted exists local
    decode usage. status, code and retry_after: None when not known, or (status) several."""

    def __init__(self, types, message, status=None, code=None, retry_after=None):
        super().__init__(f"{'/'.join(sorted(types))} {status} {code}: {message}")
        self.types, self.message, self.code, self.retry_after = set(types), message, code, retry_after
        self.statuses = set(status) if isinstance(status, tuple) else {status}


def clean_env(**more):
    """The environment without what leads a client elsewhere."""
    drop = re.compile(r"(AGENT_SANDBOX|XDG_CONFIG|NO_COLOR|NODE_)|(?i:.*_proxy$)")
    return {k: v for k, v in os.environ.items() if not drop.match(k)} | FRONT.environment | {"HOME": "/proc/none"} | more


class _InProcess:
    """What the two Python drivers share: an answer as plain JSON, and an exception as a Failure."""

    KINDS = (
        (sdk.SandboxConfigError, "config"),
        (sdk.SandboxUnreachableError, "unreachable"),
        (sdk.SandboxConnectionLostError, "broken"),
        (sdk.SandboxTimeoutError, "timeout"),
        (sdk.SandboxInterruptedError, "interrupted"),
        (sdk.SandboxAnswerError, "strange"),
        (sdk.SandboxAPIError, "api"),
        (FileExistsError, "exists"),
        (OSError, "local"),
        (UnicodeDecodeError, "decode"),
        ((TypeError, ValueError), "usage"),
    )
    OF_CLIENT = ("health", "create", "list_sandboxes", "fork", "get_snapshot", "delete_snapshot", "list_snapshots", "get")

    def plain(self, value):
        if isinstance(value, (sdk.Sandbox, sdk.AsyncSandbox)):
            return value.data
        if isinstance(value, list):
            return [self.plain(v) for v in value]
        if isinstance(value, bytes):
            return {"base64": base64.b64encode(value).decode()}
        return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value

    def failure(self, exc):
        kind = next(k for t, k in self.KINDS if isinstance(exc, t))
        if isinstance(exc, sdk.SandboxAPIError):
            return Failure({kind}, exc.message, exc.status_code or None, exc.code, exc.retry_after)
        return Failure({kind}, str(exc))

    def target(self, client, sandbox_class, name, args):
        """The bound method, and its arguments by position and by name."""
        if name == "run":
            return client.run, [args.pop("code")]
        if name in self.OF_CLIENT:
            first = args.pop("snapshot", None) or args.pop("sandbox", None)
            return getattr(client, name), [first] if first else []
        box = sandbox_class(client, {"id": args.pop("sandbox"), "status": "", "image": "", "expires_at": ""})
        order = {
            "exec": ("command",), "exec_stream": ("command",), "read_file": ("path",), "read_text": ("path",),
            "write_file": ("path", "data"), "list_files": ("path",), "upload": ("local", "path"), "download": ("path", "local"),
            "upload_folder": ("local", "path"), "download_folder": ("path", "local"), "upload_archive": ("local", "path"),
            "download_archive": ("path", "local"), "snapshot": ("name",), "rollback": ("snapshot",), "set_timeout": ("timeout_seconds",),
        }.get(name, ())  # fmt: skip
        return getattr(box, name), [args.pop(a) for a in order if a in args]

    def close(self):
        pass


class PythonDriver(_InProcess):
    name = "python"

    def __init__(self, url, key, timeout=None, retries=2):
        self.options = (url, key, timeout, retries)

    def call(self, name, /, events=None, **args):
        url, key, timeout, retries = self.options
        try:
            with sdk.SandboxClient(url, key, timeout=timeout, retries=retries) as client:
                method, first = self.target(client, sdk.Sandbox, name, args)
                if name != "exec_stream":
                    return self.plain(method(*first, **args))
                with method(*first, **args) as stream:
                    for event in stream:
                        events(dataclasses.asdict(event))
        except Exception as exc:
            raise self.failure(exc) from exc


class AsyncPythonDriver(_InProcess):
    name = "asyncio"

    def __init__(self, url, key, timeout=None, retries=2):
        self.options = (url, key, timeout, retries)

    def call(self, name, /, events=None, **args):
        try:
            return asyncio.run(self._call(name, events, args))
        except Exception as exc:
            raise self.failure(exc) from exc

    async def _call(self, name, events, args):
        url, key, timeout, retries = self.options
        async with sdk.AsyncSandboxClient(url, key, timeout=timeout, retries=retries) as client:
            method, first = self.target(client, sdk.AsyncSandbox, name, args)
            if name != "exec_stream":
                return self.plain(await method(*first, **args))
            async with method(*first, **args) as stream:
                async for event in stream:
                    events(dataclasses.asdict(event))


class TypeScriptDriver:
    name = "typescript"

    def __init__(self, url, key, timeout=None, retries=2):
        env = clean_env(AGENT_SANDBOX_URL=url, DRIVER_RETRIES=str(retries))
        if key is not None:
            env["AGENT_SANDBOX_API_KEY"] = key
        if timeout is not None:
            env["DRIVER_TIMEOUT_SECONDS"] = str(timeout)
        self.process = subprocess.Popen(
            [NODE, ROOT / "tests/node/driver.mjs"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self.count = 0

    def call(self, name, /, events=None, **args):
        if isinstance(args.get("data"), bytes):
            args["base64"] = base64.b64encode(args.pop("data")).decode()
        elif "data" in args:
            args["text"] = args.pop("data")
        args = {k: str(v) if isinstance(v, Path) else v for k, v in args.items()}
        self.count += 1
        self.process.stdin.write(json.dumps({"id": self.count, "call": name, "args": args}) + "\n")
        self.process.stdin.flush()
        while True:
            said = json.loads(self.process.stdout.readline())
            if "event" in said:
                events(said["event"])
            elif "ok" in said:
                return said["ok"]
            elif "error" in said:
                e = said["error"]
                raise Failure({e["type"]}, e["message"], e.get("status"), e.get("code"), e.get("retry_after"))

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        finally:
            self.process.kill()
            self.process.stdout.close()


class CommandDriver:
    """One process for each call. Its exit status tells kinds of failure, not each of them."""

    name = "command"
    NET = {"unreachable", "broken", "strange", "timeout"}

    def __init__(self, url, key, timeout=None, retries=2):
        self.env = clean_env(AGENT_SANDBOX_URL=url, LC_ALL="C.UTF-8")
        if key is not None:
            self.env["AGENT_SANDBOX_API_KEY"] = key

    def close(self):
        pass

    def run(self, *words, stdin=b"", ok=(0,)):
        p = subprocess.run([BUILD / "agent-sandbox", *map(str, words)], env=self.env, input=stdin, capture_output=True, timeout=60)
        if p.returncode not in ok:
            raise self.failure(p)
        return p

    def failure(self, p):
        text = p.stderr.decode().removesuffix("\n").removeprefix("agent-sandbox: ")
        kinds = {
            1: ({"api", "exists", "local", "interrupted", "usage"}, None), 2: ({"config", "usage"}, None), 3: ({"api"}, (404, 410)),
            4: ({"api"}, (401, 403)), 5: (self.NET, None), 124: ({"api"}, (408,)), 125: ({"api", "interrupted", *self.NET}, None),
        }  # fmt: skip
        types, statuses = kinds[p.returncode]
        return Failure(types, text, statuses)

    def json(self, *words, **more):
        return json.loads(self.run(words[0], "--json", *words[1:], **more).stdout)

    def call(self, name, /, events=None, **args):
        handler = getattr(self, "do_" + name)
        return handler(events, **args) if name == "exec_stream" else handler(**args)

    @staticmethod
    def options(known, args):
        return [w for k, flag in known.items() if args.get(k) is not None for w in (flag, args[k])]

    @staticmethod
    def way_out(entries):
        """Options for an egress_allowlist."""
        return ["--no-egress"] if entries == [] else [w for e in entries or [] for w in ("--egress", e)]

    def do_create(self, image=None, env=None, labels=None, network=False, read_only_rootfs=True, egress_allowlist=None, **args):
        words = self.options(
            {"cpus": "--cpus", "memory_mb": "--memory", "pids_limit": "--pids", "timeout_seconds": "--timeout",
             "idempotency_key": "--idempotency-key"}, args,
        )  # fmt: skip
        words += [w for k, v in (env or {}).items() for w in ("--env", f"{k}={v}")]
        words += [w for k, v in (labels or {}).items() for w in ("--label", f"{k}={v}")]
        words += (
            self.way_out(egress_allowlist) + ["--network"] * network + ["--writable"] * (not read_only_rootfs) + ([image] if image else [])
        )
        return self.json("create", *words)

    def do_run(self, code, language=None, snapshot=False, snapshot_id=None, egress_allowlist=None, **args):
        words = self.options({"timeout_seconds": "--timeout", "memory_mb": "--memory"}, args)
        words += (["-l", language] if language else []) + (["--from", snapshot_id] if snapshot_id else [])
        return self.json("run", *words, *self.way_out(egress_allowlist), *["--snapshot"] * snapshot, "-c", code)

    def do_get(self, sandbox):
        return self.json("show", sandbox)

    do_refresh = do_get

    def do_list_sandboxes(self, label=None):
        return self.json("ls", *(["--label", label] if label else []))["sandboxes"]

    def do_destroy(self, sandbox):
        self.run("rm", sandbox)

    def do_set_timeout(self, sandbox, timeout_seconds):
        return self.json("timeout", sandbox, timeout_seconds)

    def exec_words(self, sandbox, command, **args):
        words = self.options({"workdir": "--workdir", "timeout_seconds": "--timeout"}, args)
        words += [w for k, v in (args.get("env") or {}).items() for w in ("--env", f"{k}={v}")]
        return [*words, "--", sandbox, *([command] if isinstance(command, str) else command)]

    def do_exec(self, sandbox, command, stdin=None, **args):
        p = self.run(
            "exec", "--json", *([] if stdin else ["--no-stdin"]), *self.exec_words(sandbox, command, **args),
            stdin=(stdin or "").encode(), ok=set(range(125)) | {126, 127} | set(range(129, 256)),
        )  # fmt: skip
        result = json.loads(p.stdout)
        assert p.returncode == (124 if result["timed_out"] else result["exit_code"] & 255)
        return result

    def do_exec_stream(self, events, sandbox, command, stdin=None, **args):
        stdin = stdin.encode() if isinstance(stdin, str) else stdin
        words = ["exec", "--events", *([] if stdin else ["--no-stdin"]), *self.exec_words(sandbox, command, **args)]
        with subprocess.Popen(
            [BUILD / "agent-sandbox", *words], env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as p:
            threading.Thread(target=lambda: (p.stdin.write(stdin or b""), p.stdin.close()), daemon=True).start()
            for line in p.stdout:
                events(json.loads(line))
            p.stderr_text = p.stderr.read()
        if p.returncode == 125:
            raise self.failure(subprocess.CompletedProcess(words, p.returncode, b"", p.stderr_text))

    def do_read_file(self, sandbox, path):
        return {"base64": base64.b64encode(self.run("cat", sandbox, path).stdout).decode()}

    def do_read_text(self, sandbox, path):
        return self.run("cat", sandbox, path).stdout.decode()

    def do_write_file(self, sandbox, path, data, mode=0o644):
        data = data.encode() if isinstance(data, str) else data
        return self.json("put", "--mode", f"{mode:03o}", f"{sandbox}:{path}", stdin=data)

    def do_list_files(self, sandbox, path="/workspace"):
        return self.json("files", sandbox, path)["entries"]

    def do_upload(self, sandbox, local, path, mode=None, progress=None):
        self.run("put", local, f"{sandbox}:{path}")

    def do_upload_folder(self, sandbox, local, path):
        self.run("cp", local, f"{sandbox}:{path}")

    def do_download(self, sandbox, path, local, overwrite=False):
        self.run("cp", *(["--force"] if overwrite else []), f"{sandbox}:{path}", local)

    def do_download_folder(self, sandbox, path, local):
        self.run("cp", f"{sandbox}:{path}", local)

    def do_snapshot(self, sandbox, name=None):
        return self.json("snapshot", sandbox, *([name] if name else []))

    def do_list_snapshots(self, sandbox=None):
        return self.json("snapshots", *([sandbox] if sandbox else []))["snapshots"]

    def do_get_snapshot(self, snapshot):
        return self.json("show", snapshot)

    def do_delete_snapshot(self, snapshot):
        self.run("rm", snapshot)

    def do_rollback(self, sandbox, snapshot):
        return self.json("rollback", sandbox, snapshot)

    def do_fork(self, snapshot, **args):
        words = self.options(
            {"cpus": "--cpus", "memory_mb": "--memory", "timeout_seconds": "--timeout", "idempotency_key": "--idempotency-key"}, args
        )
        return self.json("fork", *words, snapshot)


DRIVERS = {d.name: d for d in (CommandDriver, PythonDriver, AsyncPythonDriver, TypeScriptDriver)}


def listing(folder):
    """What is below a folder, also what begins with a dot."""
    return sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*"))
