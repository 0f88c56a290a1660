// Questions to the person at the page, and messages for them: modal dialogs and notes in the corner.
import { ApiError } from "./api.js";
import { add, button, fill, h, newId, successor } from "./dom.js";

// The words of a failure: the server's own, after what they are about.
export function words(error) {
  if (error instanceof ApiError) return error.message;
  return error?.message || String(error);
}

export function source(error) {
  if (!(error instanceof ApiError) || error.status === 0) return "";
  return [`${error.status} ${error.code}`, error.request].filter(Boolean).join(" \u00b7 ");
}

export function errorBox(error, prefix = "") {
  const from = source(error);
  return h(
    "div",
    { class: "error", role: "alert" },
    h("p", null, prefix ? `${prefix}: ${words(error)}` : words(error)),
    from ? h("small", null, from) : null,
  );
}

const NOTES_MAX = 4;
let corner = null;

// A note that goes by itself; an error stays until it is closed.
export function note(content, kind = "info") {
  if (!corner) document.body.append((corner = h("div", { class: "notes", "aria-live": "polite" })));
  const host = document.querySelector("dialog[open]") ?? document.body;
  if (corner.parentNode !== host) host.append(corner);
  const box = h("div", { class: `note ${kind}` }, content);
  const close = () => box.remove();
  add(box, button("Close this message", { icon: "close", hide: true, click: close }));
  corner.append(box);
  while (corner.children.length > NOTES_MAX) corner.firstChild.remove();
  if (kind !== "error") setTimeout(close, 5000);
}

export function fail(error, prefix) {
  if (error?.name === "AbortError") return;
  note(errorBox(error, prefix), "error");
}

// Notes must not vanish with a dialog.
function rescueNotes() {
  if (corner) document.body.append(corner);
}

// A modal dialog around what is given. Resolves when it is closed; the focus returns to where it was, also when that was
// drawn anew beneath it.
export function dialog({ title, body, kind = "" }) {
  const before = document.activeElement;
  const id = newId("dialog");
  const shut = () => element.close();
  const element = h(
    "dialog",
    { class: kind, "aria-labelledby": id },
    h("header", null, h("h2", { id }, title), button("Close", { icon: "close", hide: true, click: shut })),
    body,
  );
  document.body.append(element);
  const closed = new Promise((resolve) => {
    element.addEventListener("close", () => {
      rescueNotes();
      element.remove();
      (before.isConnected ? before : successor(before))?.focus();
      resolve(element.returnValue);
    });
  });
  element.addEventListener("pointerdown", (e) => {
    if (e.target !== element) return;
    const r = element.getBoundingClientRect();
    const inside = e.clientX >= r.left && e.clientX <= r.right && e.clientY >= r.top && e.clientY <= r.bottom;
    if (!inside && !element.querySelector("form[data-busy]")) shut();
  });
  element.showModal();
  (element.querySelector("[autofocus]") ?? element).focus();
  return { element, close: shut, closed };
}

// A form in a dialog. act(form) does the work; while it fails the dialog stays, with the reason in it. With shown(result)
// it stays also then, to do it again.
export function formDialog({
  title,
  fields,
  submit,
  busy = "Working\u2026",
  danger = false,
  act,
  shown,
  kind,
  start,
}) {
  const trouble = h("div");
  const go = button(submit, {
    kind: danger ? "danger" : "primary",
    type: "submit",
    autofocus: danger ? null : !fields,
  });
  const cancel = button(shown ? "Close" : "Cancel", { autofocus: danger });
  const form = h(
    "form",
    { novalidate: true },
    h("div", { class: "fields" }, fields),
    trouble,
    h("footer", null, cancel, go),
  );
  const d = dialog({ title, body: form, kind });
  let abort = null;
  cancel.addEventListener("click", () => d.close());
  d.closed.then(() => abort?.abort());
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    if (form.dataset.busy) return;
    abort = new AbortController();
    form.dataset.busy = "yes";
    go.disabled = true;
    go.lastChild.textContent = busy;
    fill(trouble);
    try {
      const result = await act(form, abort.signal);
      abort = null;
      if (shown) return shown(result);
      d.result = result;
      d.element.close("done");
    } catch (error) {
      if (error.name !== "AbortError") fill(trouble, errorBox(error));
    } finally {
      delete form.dataset.busy;
      go.disabled = false;
      go.lastChild.textContent = submit;
    }
  });
  start?.(form);
  return d.closed.then((value) => (value === "done" ? (d.result ?? true) : null));
}

// Resolves to true only when the answer is yes.
export async function confirm({ title, text, yes, danger = false, act = async () => true }) {
  return (await formDialog({ title, fields: text, submit: yes, danger, act })) !== null;
}

// A labelled field of a form, with a hint that screen readers connect with it.
export function field(label, control, hint) {
  control.id ||= newId("field");
  const about = hint ? h("small", { id: `${control.id}-hint` }, hint) : null;
  if (about) control.setAttribute("aria-describedby", about.id);
  if (control.type === "checkbox")
    return h("div", { class: "field check" }, control, h("label", { for: control.id }, label), about);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, about);
}

export function input(name, props) {
  return h("input", { name, type: "text", autocomplete: "off", spellcheck: "false", ...props });
}
