"""The soak's table, in Markdown, and what failed."""

import os
import platform

STEPS = ("create", "exec", "write", "read", "snapshot", "rollback", "fork", "delete")


def number(x):
    return f"{x:,.0f}" if abs(x - round(x)) < 0.05 else f"{x:,.1f}"


def of_rows(title, rows, judged):
    out = [f"| {title} | first | last | slope in 1,000 cycles | bound | |", "| --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        verdict = ("ok" if r.good else "**grew**") if judged else "not judged"
        out.append(f"| {r.what} | {number(r.first)} | {number(r.last)} | {number(r.per_1000)} | {r.bound} | {verdict} |")
    return out


def of_run(soak):
    t, f = soak.tally, soak.faults
    minutes = soak.seconds / 60
    kills = ", ".join(f"{name} {n}" for name, n in sorted(f.counts.items()))
    return [
        "| run | |",
        "| --- | --- |",
        f"| machine | {os.cpu_count()} CPUs, Linux {platform.release()}, Docker {soak.version} |",
        f"| cycles | {t.done:,} by {soak.workers} clients at once, in {minutes:.0f} minutes, seed {soak.seed} |",
        f"| killed | {sum(f.counts.values())}: {kills} |",
        f"| slowest until all was well again | {f.slowest:.1f} s |",
        f"| the server was started again | {f.started_again} times |",
        f"| cycles that a kill interrupted | {t.interrupted} |",
        f"| wrong answers | {len(t.wrong)} |",
    ]


def of_times(soak):
    out = ["| call | median | 95th percentile |", "| --- | --- | --- |"]
    for name in STEPS:
        median, late = soak.tally.quantiles(name)
        out.append(f"| {name} | {median:.1f} ms | {late:.1f} ms |")
    return out


def write(soak, failed):
    """The page, and all that failed."""
    programs, left, judged = soak.rows()
    failed = failed + soak.tally.wrong[:20]
    failed += [f"{r.what}: {number(r.first)}, then {number(r.last)}" for r in left if not r.good]
    failed += [f"{r.what} grew by {number(r.per_1000)} in 1,000 cycles" for r in programs if judged and not r.good]
    parts = (
        of_run(soak),
        of_rows("in the calm part", programs, judged),
        of_rows("left when all was at rest", left, True),
        of_times(soak),
    )
    return "\n\n".join("\n".join(p) for p in parts) + "\n", failed
