// The answer to a request of the reference: status, headers, and a body of whatever kind.
import { ndjson } from "./api.js";
import { button, codeBox, fill, h, size } from "./dom.js";
import { json } from "./schema.js";

const SHOWN_MAX = 200 * 1024;
const LINES_MAX = 500;

function headerList(response) {
  const rows = [...response.headers].map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, v)));
  return h(
    "details",
    null,
    h("summary", null, `Headers (${rows.length})`),
    h("dl", { class: "headers" }, rows),
  );
}

function shownText(text, type) {
  const cut = text.length > SHOWN_MAX;
  let whole = text;
  if (!cut && type.includes("json") && !type.includes("ndjson")) {
    try {
      whole = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      // Shown as it came.
    }
  }
  const content = cut ? text.slice(0, SHOWN_MAX) : type.includes("json") ? json(whole) : whole;
  return [
    codeBox(content, text, "body of the answer"),
    cut ? h("p", { class: "cut" }, `The first ${size(SHOWN_MAX)} of ${size(text.length)}.`) : null,
  ];
}

async function showStream(response, place, learn) {
  const pre = h("pre", { tabIndex: 0, role: "log", "aria-live": "off", "aria-label": "Lines of the stream" });
  const count = h("p", { class: "cut" });
  fill(place, h("div", { class: "code" }, pre), count);
  let n = 0;
  for await (const event of ndjson(response)) {
    n++;
    const text = JSON.stringify(event);
    pre.append(h("div", null, json(text.length > 4000 ? `${text.slice(0, 4000)}\u2026` : text)));
    if (pre.childElementCount > LINES_MAX) pre.firstChild.remove();
    fill(count, n > LINES_MAX ? `${n} lines, the last ${LINES_MAX} shown` : `${n} lines`);
    pre.scrollTop = pre.scrollHeight;
    learn(text);
  }
}

async function showBinary(response, place, name) {
  const blob = await response.blob();
  const save = button(`Save ${size(blob.size)}`, { icon: "down" });
  save.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const a = h("a", { href: address, download: name });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  });
  const head = blob.size <= 64 * 1024 && (await blob.text());
  fill(
    place,
    save,
    head && !head.includes("\u0000") && !head.includes("\ufffd") ? shownText(head, "text/plain") : null,
  );
}

// Shows it in place. learn(text) hears of what is in it; name is for what is saved as a file.
export async function showAnswer(response, place, { took, name, learn }) {
  const type = response.headers.get("Content-Type") ?? "";
  const body = h("div");
  const number = h("span", { class: `code-number s${String(response.status)[0]}` }, response.status);
  const words = h("span", null, `${response.statusText} \u00b7 ${took}`);
  fill(place, h("p", { class: "outcome" }, number, words), headerList(response), body);
  if (type.includes("ndjson") && response.ok) {
    await showStream(response, body, learn);
  } else if (/json|text/.test(type)) {
    const text = await response.text();
    fill(body, shownText(text, type));
    learn(text);
  } else if (response.status === 204) {
    fill(body, h("p", { class: "cut" }, "no body"));
  } else {
    await showBinary(response, body, name(type));
  }
}
