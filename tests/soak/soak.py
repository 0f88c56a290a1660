"""A long run on an engine of its own: sandboxes are made, used and ended, in a calm part and in one with kills; a table, build/soak.md.

In the calm part (the first half) nothing is killed: each program is the same process from its beginning to its end, and neither its memory nor its
descriptors may grow after the first 200 cycles. In the second half something is killed every few cycles: one of our programs, the
parent, the engine. Whenever all is at rest it is counted what is left: containers, volumes, cgroups, mounts, processes, records. An answer
that is wrong is a failure, kill or not.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
os.environ["AS_TEST_FRONT"] = "tls"  # with a certificate keyd has something to do
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import images  # noqa: E402
import table  # noqa: E402
from faults import Faults  # noqa: E402
from harness import Api, Engine, Server  # noqa: E402
from sample import at_rest, judge_left, judge_programs  # noqa: E402
from work import Cycle, Interrupted, Tally, Wrong  # noqa: E402

MARK = "<!-- table -->"
WARM = 200
JUDGED = 400  # in fewer cycles nothing grows that could be told from noise


class Soak:
    def __init__(self, options, work):
        self.cycles, self.workers, self.seed = options.cycles, options.workers, options.seed
        self.every, self.due = options.kill_every, 0
        self.tally, self.samples, self.next = Tally(), {"calm": [], "kills": []}, 0
        self.engine = Engine(work / "engine")
        self.engine.start("--live-restore")
        images.tiny(self.engine, "tiny:1")
        self.version = self.engine.call("GET", "/version")["Version"]
        self.server = Server(self.engine, DEFAULT_IMAGE="tiny:1", POOL=2, MAX_SANDBOXES=40)
        self.faults = Faults(self.server, random.Random(options.seed))

    def say(self, what):
        print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)

    def one(self, api, number):
        try:
            Cycle(api, self.tally, self.faults.excused, f"{self.seed}-{number}").run()
        except Interrupted:
            with self.tally.lock:
                self.tally.interrupted += 1
        except Wrong as exc:
            with self.tally.lock:
                self.tally.wrong.append(str(exc))
            self.say(f"WRONG {exc}")
        with self.tally.lock:
            self.tally.done += 1

    def worker(self, numbers):
        api = Api(self.server.url)
        while True:
            with self.tally.lock:
                number = next(numbers, None)
            if number is None:
                return
            self.one(api, number)

    def strike_until(self, done):
        """Kills, one after so many cycles."""
        while not done.wait(0.1):
            if self.tally.done >= self.due:
                self.faults.strike()
                self.due = self.tally.done + self.every

    def block(self, count, kills):
        """So many cycles, by all workers at once; then a sample at rest."""
        numbers, done = iter(range(self.next, self.next + count)), threading.Event()
        self.next += count
        with ThreadPoolExecutor(self.workers + 1) as pool:
            struck = pool.submit(self.strike_until, done) if kills else None
            try:
                for f in [pool.submit(self.worker, numbers) for _ in range(self.workers)]:
                    f.result()
            finally:
                done.set()
            if struck:
                struck.result()

    def part(self, name, cycles, step):
        expected = self.samples["calm"][0].left if self.samples["calm"] else None
        end = self.next + cycles
        while self.next < end:
            self.block(min(step, end - self.next), name == "kills")
            s = at_rest(self.server, self.next, expected)
            self.samples[name].append(s)
            self.say(
                f"{self.next:5} cycles, {self.tally.interrupted} interrupted, {sum(self.faults.counts.values())} kills; left: {s.left}"
            )

    def run(self):
        began = time.monotonic()
        self.server.start()
        self.samples["calm"].append(at_rest(self.server, 0))
        step = max(5, self.cycles // 40)
        self.part("calm", self.cycles // 2, step)
        self.due = self.tally.done
        self.part("kills", self.cycles - self.cycles // 2, step)
        self.seconds = time.monotonic() - began

    def rows(self):
        """The table's rows, and whether the programs' are judged."""
        calm = [s for s in self.samples["calm"] if s.cycle >= min(WARM, self.cycles // 4)]
        left = judge_left([*self.samples["calm"], *self.samples["kills"]], self.faults.counts["engine"] > 0)
        return judge_programs(calm), left, self.cycles >= JUDGED

    def close(self):
        """What ends is ended in order, what does not is a failure."""
        self.server.close()

    def remove(self):
        self.server.remove()
        return self.engine.stop()


def options():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--cycles", type=int, default=int(os.environ.get("SOAK_CYCLES") or 2000))
    ap.add_argument("--kill-every", type=int, default=12, help="cycles between two kills, in the second half")
    ap.add_argument("--workers", type=int, default=4)
    ap.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    ap.add_argument("--output", type=Path, default=HERE.parents[1] / "build/soak.md")
    ap.add_argument("--page", type=Path, default=os.environ.get("SOAK_PAGE") or None, help="its table is replaced, too")
    return ap.parse_args()


def main():
    o = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if o.cycles < 20:
        sys.exit("soak: SOAK_CYCLES is at least 20")
    work = Path(tempfile.mkdtemp(prefix="as-soak-"))
    work.chmod(0o755)
    soak, failed = None, []
    try:
        soak = Soak(o, work)
        soak.say(f"{o.cycles} cycles by {o.workers} clients at once, seed {o.seed}")
        soak.run()
        soak.close()
    except BaseException as exc:
        failed.append(f"ended early: {exc!r}"[:2000])
        traceback.print_exc()
    failed += [f"left: {x}" for x in (soak.remove() if soak else [])]
    shutil.rmtree(work, ignore_errors=True)
    if soak is None or not soak.samples["kills"]:
        print("soak: FAILED:", *failed)
        return 1
    page, failed = table.write(soak, failed)
    o.output.parent.mkdir(parents=True, exist_ok=True)
    o.output.write_text(page)
    if o.page:
        o.page.write_text(o.page.read_text().partition(MARK)[0] + f"{MARK}\n\n{page}")
    print(page)
    print("soak: FAILED: " + "; ".join(failed)[:4000] if failed else "soak: nothing grew, nothing was left, no answer was wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
