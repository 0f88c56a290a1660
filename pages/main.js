// The frame around both pages: header, key, colours, and the way between them without losing the key.
import { BASE, forgetKey, hasKey, send, session, useKey } from "./api.js";
import { ConsolePage } from "./console.js";
import { errorBox, field, formDialog, input } from "./dialog.js";
import { docsPage } from "./docs.js";
import { button, fill, h, icon, say } from "./dom.js";

const PAGES = {
  console: { title: "Console", make: () => new ConsolePage() },
  docs: { title: "API reference", make: docsPage },
};

const main = document.getElementById("main");
const system = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
let shown = null;

const here = () => (location.pathname.replace(/\/$/, "").endsWith("/docs") ? "docs" : "console");

// --- Colours: the system's until somebody chooses. Not remembered: nothing is stored.

const themeButton = button("", { class: "bare", click: () => choose(isDark() ? "light" : "dark") });
const isDark = () => (theme ?? (system.matches ? "dark" : "light")) === "dark";

function choose(value) {
  theme = value;
  document.documentElement.dataset.theme = value;
  drawTheme();
}

function drawTheme() {
  const text = isDark() ? "Use light colours" : "Use dark colours";
  themeButton.title = text;
  fill(themeButton, icon(isDark() ? "light" : "dark"), h("span", { class: "sr" }, text));
}

system.addEventListener("change", drawTheme);

// --- The key

const keyButton = h("button", { type: "button", class: "key" });

async function tryKey(value) {
  const bad = /[^\x21-\x7e]/.test(value);
  if (bad) throw new Error("A key has only printable ASCII characters and no spaces.");
  await useKey(value);
}

// Asks for the key in a dialog: for the reference, where reading needs none.
export async function askKey() {
  const value = input("key", {
    type: "password",
    autofocus: true,
    placeholder: "leave empty if the server runs without keys",
  });
  const done = await formDialog({
    title: "API key",
    fields: [field("Key", value, "Kept in this page's memory only: gone when it is closed or loaded again.")],
    submit: "Use this key",
    busy: "Checking\u2026",
    act: async () => (await tryKey(value.value.trim()), true),
  });
  return done !== null;
}

function drawKey() {
  const set = hasKey();
  keyButton.classList.toggle("set", set);
  keyButton.title = set ? "The key is in this page's memory; press to forget it" : "Enter the API key";
  fill(keyButton, icon("key"), h("span", null, set ? "Forget key" : "Enter key"));
}

keyButton.addEventListener("click", async () => {
  if (!hasKey()) {
    await askKey();
  } else {
    forgetKey();
    say("The key is forgotten");
  }
});

// The first thing to see in the console.
function keyPage(reason) {
  const value = input("key", { type: "password", required: false, placeholder: "API key" });
  const trouble = h(
    "div",
    null,
    reason ? h("div", { class: "error", role: "alert" }, h("p", null, reason)) : null,
  );
  const go = button("Open the console", { kind: "primary", type: "submit" });
  const form = h(
    "form",
    { class: "door", novalidate: true },
    h("h1", null, "agent-sandbox console"),
    h(
      "p",
      null,
      "Sandboxes of ",
      h("strong", null, BASE.host),
      ": run commands, move files, snapshot, roll back and fork.",
    ),
    field(
      "API key",
      value,
      "Stays in this page's memory: never stored, never in an address, gone when the page is closed. Leave it empty if the server runs without keys.",
    ),
    trouble,
    go,
  );
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    go.disabled = true;
    fill(trouble);
    try {
      await tryKey(value.value.trim());
    } catch (error) {
      fill(trouble, errorBox(error));
      value.focus();
    } finally {
      go.disabled = false;
    }
  });
  queueMicrotask(() => value.focus());
  return form;
}

// --- The frame

const links = Object.entries(PAGES).map(([name, page]) => {
  const a = h("a", { href: new URL(name, BASE).pathname }, page.title);
  a.addEventListener("click", (e) => {
    if (e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0) return;
    e.preventDefault();
    go(name);
  });
  return [name, a];
});

const about = h("span", { class: "about" });

async function askHealth() {
  try {
    const response = await send("GET", "healthz");
    const health = await response.json();
    if (!response.ok) throw new Error(health.error.message);
    const weak = health.confinement === "partial";
    fill(
      about,
      `${health.version} \u00b7 ${health.backend}`,
      weak
        ? h(
            "span",
            {
              class: "badge warn",
              title:
                "A part of the separation between the server's programs is missing on its host: agent-sandbox doctor says which.",
            },
            "partial confinement",
          )
        : null,
    );
  } catch (error) {
    fill(about, h("span", { class: "badge bad", title: error.message }, "engine not reachable"));
  }
}

function frame() {
  const skip = h("a", { class: "skip", href: "#main" }, "Skip to the content");
  skip.addEventListener("click", (e) => {
    e.preventDefault();
    main.focus();
  });
  const top = h(
    "header",
    { class: "top" },
    h(
      "span",
      { class: "brand" },
      h("img", { src: "assets/icon.svg", alt: "", width: 20, height: 20 }),
      h("span", null, "agent-sandbox"),
    ),
    h(
      "nav",
      { "aria-label": "Pages" },
      links.map(([, a]) => a),
    ),
    about,
    keyButton,
    themeButton,
  );
  document.body.prepend(skip, top);
}

const made = {};

// Where each page was, to come back to.
const hashes = {};

function show() {
  const name = here();
  document.title = `${PAGES[name].title} \u00b7 agent-sandbox`;
  for (const [n, a] of links) {
    if (n === name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (shown && shown !== name) made[shown]?.leave?.();
  shown = name;
  main.className = name;
  main.tabIndex = -1;
  if (name === "console" && !hasKey()) {
    main.className = "blank";
    fill(main, keyPage(show.reason));
    show.reason = "";
    return;
  }
  made[name] ??= PAGES[name].make({ askKey });
  if (main.firstChild !== made[name].element) fill(main, made[name].element);
  made[name].enter?.();
}

function go(name) {
  if (name === here()) return;
  hashes[here()] = location.hash;
  history.pushState(null, "", new URL(name, BASE).pathname + (hashes[name] ?? ""));
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

session.addEventListener("key", (e) => {
  drawKey();
  if (e.detail) show.reason = e.detail;
  if (!hasKey() && made.console) {
    made.console.end();
    delete made.console;
  }
  if (here() === "console") show();
});

addEventListener("popstate", () => {
  if (here() !== shown) show();
});

frame();
drawKey();
drawTheme();
show();
askHealth();
setInterval(() => document.hidden || askHealth(), 30000);
