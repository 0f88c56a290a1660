"""Small changes of a C source, each such as somebody could make by mistake: the list of all that are possible in a file.

Changed are the bodies of functions, and the rows of the channels' tables: how long a tail may be, whether a descriptor comes with it. What only a person would see (a line for the
log), what only memory would (a free, how much is allocated) or only a machine without memory (where a library gives no object), is left alone, and so is the condition of
nothing but that: no test of behaviour could notice.
"""

import re
from dataclasses import dataclass

COMPARISON = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|", "+=": "-=", "-=": "+=",
              "|=": "&=", "&=": "|=", "++": "--", "--": "++"}  # fmt: skip
LOGIC = {"&&": "||", "||": "&&"}
ROW = re.compile(r"X\(\w+, \w+, struct \w+, (?P<tail>[^,()]+|\([^()]*\)), (?P<fd>FD_\w+)\)")
KINDS = ("comparison", "boundary", "arithmetic", "logic", "negated", "constant", "deleted", "row")
TOKEN = re.compile(
    r"""(?P<blank>\s+)|(?P<name>[A-Za-z_]\w*)|(?P<number>0[xX][0-9a-fA-F]+[uUlL]*|\d[\w.]*)
|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?P<op><<=|>>=|->|\+\+|--|<<|>>|[-+*/%&|^=!<>]=|&&|\|\||.)""",
    re.X | re.S,
)
SILENT = re.compile(r"(log_\w+|free|json_decref|explicit_bzero|va_end|va_start|freeaddrinfo|\(void\))\b|\(void\)")
UNSEEN = re.compile(r'\s*(log_\w+\(|free\(|fatalx\("(out of memory|[a-z]+_[a-z_]+)"\))')
DECLARATION = re.compile(r"\s*(static|const|struct|union|enum|unsigned|signed|char|int|long|short|size_t|ssize_t|u?int\w+_t|double|uid_t|gid_t|pid_t|"
                         r"json_t|va_list|time_t|off_t|void)\b")  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    path: str
    line: int
    kind: str
    at: int
    end: int
    new: str
    old: str

    def apply(self, source):
        return source[: self.at] + self.new + source[self.end :]

    def __str__(self):
        old, new = " ".join(self.old.split()), " ".join(self.new.split())
        return f"{self.path}:{self.line}: {self.kind}: {old[:70]} -> {new[:70] or 'nothing'}"


def blanked(source):
    """The same text with comments and preprocessor lines as blanks, so that all positions stay."""
    pattern = r"/\*.*?\*/|//[^\n]*|^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"

    def blank(m):
        return m[0] if m[0][0] in "\"'" else re.sub(r"[^\n]", " ", m[0])

    return re.sub(pattern, blank, source, flags=re.M | re.S)


def bodies(text):
    """(begin, end) of each function's body: from a brace alone in the first column to the next closing one there."""
    for m in re.finditer(r"^\{$(.*?)^\}$", text, re.M | re.S):
        yield m.start(1), m.end(1)


def closing(text, at):
    """Where the parenthesis at that position is closed."""
    depth = 0
    for m in TOKEN.finditer(text, at):
        depth += (m[0] == "(") - (m[0] == ")")
        if depth == 0:
            return m.end()
    return None


def spaced(text, m):
    """A binary operator has blanks on both sides; a pointer or a sign has not."""
    return text[m.start() - 1].isspace() and text[m.end() : m.end() + 1].isspace()


def line_of(text, at):
    begin = text.rfind("\n", 0, at) + 1
    return text[begin : text.find("\n", at)]


def changed_number(text):
    """The next one; of 1 it is 0, since many a 1 only means yes."""
    if not (m := re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)", text)):
        return None
    value = int(m[1], 16 if m[1][:2].lower() == "0x" else 8 if m[1][0] == "0" and len(m[1]) > 1 else 10)
    return str(0 if value == 1 else value + 1) + m[2]


def successes(text, begin, end):
    """Where a function that says -1 when it fails says 0: there -1 stands instead, since to its callers 1 would be the same."""
    if not re.search(r"\breturn\b[^;]*(-1\b|\brefuse\()", text[begin:end]):
        return ()
    return [m.end() for m in re.compile(r"\breturn (?:[^;]*[?:] )?(?=0(?: :|;))").finditer(text, begin, end)]


def unseen(text, begin, end):
    """(begin, end) of each condition that only decides about what cannot be seen, and what stands in calloc() and sizeof()."""
    for m in re.compile(r"\bif (?=\()|\b(?:calloc|sizeof)(?=\()").finditer(text, begin, end):
        if (close := closing(text, m.end())) and (m[0] != "if " or UNSEEN.match(text, close)):
            yield m.end(), close


def of_token(text, m):
    """(kind, what stands there instead) for one token."""
    word = m[0]
    if m["op"] and word in COMPARISON and spaced(text, m):
        yield "comparison", COMPARISON[word]
        if word in BOUNDARY:
            yield "boundary", BOUNDARY[word]
    if m["op"] and word in ARITHMETIC and (spaced(text, m) or word in ("++", "--")):
        yield "arithmetic", ARITHMETIC[word]
    if m["op"] and word in LOGIC:
        yield "logic", LOGIC[word]
    sized = text[m.start() - 1] == "[" and DECLARATION.match(line_of(text, m.start()))
    if m["number"] and not sized and (other := changed_number(word)):
        yield "constant", other


def statements(text, begin, end):
    """(begin, end) of each statement that is a call or an assignment."""
    for m in re.finditer(r"(?<=[;{}])\s*\n(?P<s>\t+[^\s#{};][^;{}]*;)(?=\n)|(?<=\))\n(?P<t>\t+[^\s#{};][^;{}]*;)(?=\n)", text[begin:end]):
        which = "s" if m["s"] else "t"
        body = m[which].strip()
        simple = not re.match(r"(return|goto|break|continue|case|default|if|for|while|do|else|switch)\b", body) and "case " not in body
        if (
            simple
            and not DECLARATION.match(body)
            and not SILENT.match(body)
            and not re.match(r"\w+:", body)
            and re.search(r"[=(]|\+\+|--", body)
        ):
            lead = len(m[which]) - len(m[which].lstrip())
            yield begin + m.start(which) + lead, begin + m.end(which)


def mutants(path, source):
    """All that can be changed in this source, in order."""
    text, out = blanked(source), []

    def add(kind, at, end, new):
        out.append(Mutant(path, source.count("\n", 0, at) + 1, kind, at, end, new, source[at:end]))

    for m in ROW.finditer(source) if path.endswith(".h") else ():
        add("row", m.start("tail"), m.end("tail"), "8" if m["tail"] == "0" else "0")
        add("row", m.start("fd"), m.end("fd"), "FD_MUST" if m["fd"] == "FD_NONE" else "FD_NONE")
    for begin, end in bodies(text):
        fine, hidden = successes(text, begin, end), list(unseen(text, begin, end))
        for m in TOKEN.finditer(text, begin, end):
            if any(a - 1 <= m.end() and m.start() < b for a, b in hidden):  # the word if belongs to it
                continue
            for kind, new in [("constant", "-1")] if m.start() in fine else of_token(text, m):
                add(kind, m.start(), m.end(), new)
            if m["name"] and m[0] in ("if", "while") and (gap := re.match(r"\s*", text[m.end() :]).end()) is not None:
                at = m.end() + gap
                if text[at] == "(" and (close := closing(text, at)):
                    add("negated", at, close, f"(!{source[at:close]})")
        for a, b in statements(text, begin, end):
            add("deleted", a, b, ";")
    return sorted(out, key=lambda x: (x.at, x.kind, x.end))
