"""The snippets of the manual: what each fenced block of a page is.

An HTML comment above a fence says what it is, when its language does not:
  <!-- file NAME -->        it is saved as NAME in the folder where the reader is; a later snippet uses it
  <!-- mcp NAME -->         the same, and the servers that this configuration names are started and spoken to
  <!-- output -->           what the snippet before it prints: ids, times and milliseconds match any other, "..." matches anything
  <!-- until COMMAND -->    it runs until this succeeds, then it gets a Ctrl-C and must end; on a machine without a server
  <!-- tested by FILE -->   that test runs it
Anywhere:
  <!-- setup COMMANDS -->   what a test must do there that a reader has long done
  <!-- needs PAGE#TITLE ... -->   in front of the first section: sections of other pages that the reader went through before
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from harness import ROOT

# A diff is a Python program before and after a change; both must print the same.
RUNNERS = {"diff": "python3", "python": "python3", "js": "node", "ts": "node"}
SUFFIX = {"diff": "py", "python": "py", "js": "mjs", "ts": "ts"}
KINDS = ("file", "mcp", "output", "until", "tested by", "setup", "needs")
COMMENT = re.compile(rf"<!--\s*({'|'.join(KINDS)})\b[ \t]*(.*?)\s*-->", re.S)
FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)
HEADING = re.compile(r"^## +(.*?) *$", re.M)


@dataclass
class Snippet:
    page: str
    line: int
    language: str
    text: str
    kind: str = ""
    argument: str = ""

    def __str__(self):
        return f"{self.page}:{self.line}"


@dataclass
class Section:
    page: str
    title: str
    snippets: list = field(default_factory=list)
    needs: tuple = ()

    def __str__(self):
        return f"{self.page}#{self.title}"


def parse(page, root=ROOT):
    """The sections of a page that have snippets, in order."""
    text = (root / page).read_text()
    marks = [(m.start(), "heading", m) for m in HEADING.finditer(text)]
    marks += [(m.start(), "comment", m) for m in COMMENT.finditer(text)]
    marks += [(m.start(), "fence", m) for m in FENCE.finditer(text)]
    fences = [m.span() for _, what, m in marks if what == "fence"]
    sections, needs, note = [Section(page, "")], (), None
    for at, what, m in sorted(marks, key=lambda mark: mark[0]):
        if what != "fence" and any(begin < at < end for begin, end in fences):
            continue
        if what == "heading":
            sections.append(Section(page, m[1]))
            sections[-1].needs = () if str(sections[-1]) in needs else needs
        elif what == "comment" and m[1] == "needs":
            needs = tuple(re.findall(r"[^\s#]+#.*?(?=\s+[^\s#]+#|$)", m[2]))
        elif what == "comment" and m[1] == "setup":
            sections[-1].snippets.append(Snippet(page, text.count("\n", 0, at) + 1, "sh", m[2] + "\n", "setup"))
        elif what == "comment":
            note = m
        else:
            kind, argument = (note[1], note[2]) if note else ("", "")
            sections[-1].snippets.append(Snippet(page, text.count("\n", 0, at) + 1, m[1], m[2], kind, argument))
            note = None
    assert note is None, f"{page}: no fence after {note[0]}"
    return [s for s in sections if s.snippets]


def wrong(section):
    """What of this section no test would run: a list of complaints."""
    out, before = [], None
    for i, s in enumerate(section.snippets):
        later = "".join(x.text for x in section.snippets[i + 1 :] if x.kind in ("", "file"))
        if not s.language and not s.kind:
            pass  # a drawing
        elif s.kind == "file" and Path(s.argument).stem not in later:
            out.append(f"{s}: nothing uses {s.argument}")
        elif s.kind == "output" and (before is None or before.kind not in ("", "file")):
            out.append(f"{s}: the output of nothing")
        elif s.kind == "until" and s.language != "sh":
            out.append(f"{s}: not a shell snippet")
        elif s.kind == "tested by" and not (ROOT / s.argument).is_file():
            out.append(f"{s}: {s.argument} does not exist")
        elif not s.kind and s.language != "sh" and s.language not in RUNNERS:
            out.append(f"{s}: nobody runs {s.language}")
        before = s
    return out


def changed(text, drop):
    """One side of a diff: without the lines that begin with drop."""
    return "".join(line[1:] + "\n" for line in text.splitlines() if not line.startswith(drop))


def pattern(expected):
    """A regular expression for what an output fence shows."""
    any_of = (
        (r"\b(sb|snap|exec)_[0-9a-f]{16}\b", r"\1_[0-9a-f]{16}"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", r"[0-9T:.Z-]{27}"),
        (r'("duration_ms": ?)\d+', r"\1\\d+"),
        (r"\.\.\.", r".*?"),
    )
    out = []
    for line in expected.rstrip("\n").split("\n"):
        kept, rest = "", line
        while rest:
            found = [(m, by) for rule, by in any_of if (m := re.search(rule, rest))]
            if not found:
                break
            m, by = min(found, key=lambda f: f[0].start())
            kept += re.escape(rest[: m.start()]) + m.expand(by)
            rest = rest[m.end() :]
        out.append(kept + re.escape(rest))
    # A line that is only "..." stands for any number of lines.
    return re.compile("".join(r"(?:.*\n)*?" if line == ".*?" else line + r"\n" for line in out))
