// The few marks that descriptions use - paragraphs, lists, code, emphasis, links - as elements.
import { h } from "./dom.js";

const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\(((?:https?:\/\/|#)[^)\s]+)\)/g;

export function inline(text) {
  const out = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    out.push(text.slice(at, found.index));
    if (found[1] !== undefined) out.push(h("code", null, found[1]));
    else if (found[2] !== undefined) out.push(h("strong", null, found[2]));
    else out.push(h("a", { href: found[4], rel: "noreferrer" }, found[3]));
    at = found.index + found[0].length;
  }
  out.push(text.slice(at));
  return out;
}

export function markdown(text) {
  const out = [];
  for (const part of (text ?? "").split(/```[a-z]*\n([\s\S]*?)```/).entries()) {
    const [i, piece] = part;
    if (i % 2 === 1) {
      out.push(h("pre", { tabIndex: 0, role: "group", "aria-label": "Code" }, piece.trimEnd()));
      continue;
    }
    for (const paragraph of piece.split(/\n\s*\n/)) {
      const lines = paragraph.trim().split("\n");
      if (lines[0] === "") continue;
      if (lines.every((l) => /^\s*[-*] |^\s{2,}\S/.test(l))) {
        const items = paragraph
          .trim()
          .split(/^\s*[-*] /m)
          .slice(1);
        out.push(
          h(
            "ul",
            { class: "plain" },
            items.map((t) => h("li", null, inline(t.replace(/\s+/g, " ").trim()))),
          ),
        );
      } else {
        out.push(h("p", null, inline(lines.join(" ").replace(/^#+ /, ""))));
      }
    }
  }
  return out;
}
