// One sandbox: its head with time and actions, the command line, and beside it files, snapshots and details.
import { BASE, call } from "./api.js";
import { CommandLine } from "./command.js";
import { seconds } from "./create.js";
import { confirm, field, formDialog, input, words } from "./dialog.js";
import { button, codeBox, copyButton, fill, h, memory, say, span, stamp, visible } from "./dom.js";
import { FilesPane } from "./files.js";
import { left, nameOf, urgency } from "./list.js";
import { takeSnapshot, treePane } from "./tree.js";
import { drop, put, refresh, sandboxes, snapshots, world } from "./world.js";

const wide = matchMedia("(min-width: 1180px)");

async function extend(box) {
  const value = input("timeout", { autofocus: true, list: "more-time", value: "1h" });
  const list = h(
    "datalist",
    { id: "more-time" },
    ["15m", "1h", "4h", "24h"].map((v) => h("option", { value: v })),
  );
  const presets = h(
    "div",
    { class: "presets", role: "group", "aria-label": "Usual times" },
    ["15m", "1h", "4h", "24h"].map((v) =>
      button(v, { kind: "small", click: () => ((value.value = v), value.focus()) }),
    ),
  );
  const changed = await formDialog({
    title: "Time to live",
    fields: [
      list,
      field("From now", value, "90, 15m, 2h: counted from now, so it can be shortened too."),
      presets,
    ],
    submit: "Set",
    act: (form, signal) =>
      call("POST", `v1/sandboxes/${box.id}/timeout`, {
        json: { timeout_seconds: seconds(value.value, "From now") },
        signal,
      }),
  });
  if (!changed) return;
  put(changed);
  say(`Ends at ${stamp(changed.expires_at)}`);
}

async function destroy(box, before, back) {
  const kept = [...snapshots.values()].filter((s) => s.sandbox_id === box.id).length;
  const yes = await confirm({
    title: "Destroy this sandbox?",
    text: [
      h(
        "p",
        null,
        h("strong", null, nameOf(box)),
        " \u00b7 ",
        h("code", null, box.id),
        " \u00b7 ",
        visible(box.image),
      ),
      h(
        "p",
        null,
        `Its processes end and its files are lost. ${kept ? `Its snapshots (${kept}) stay.` : "It has no snapshots."}`,
      ),
    ],
    yes: "Destroy",
    danger: true,
    act: async () => (await call("DELETE", `v1/sandboxes/${box.id}`), true),
  });
  if (!yes) return;
  before();
  drop(box.id);
  say(`Sandbox ${box.id} is destroyed`);
  back();
}

function details(box) {
  const rows = [
    ["Id", h("span", { class: "mono" }, box.id), box.id],
    ["Status", box.status],
    ["Image", visible(box.image), box.image],
    ["CPUs", String(box.cpus)],
    ["Memory", memory(box.memory_mb)],
    ["Processes", `at most ${box.pids_limit}`],
    ["Network", box.network ? "yes" : "no"],
    ["Root file system", box.read_only_rootfs ? "read-only" : "writable"],
    ["Created", stamp(box.created_at)],
    ["Ends", stamp(box.expires_at)],
    [
      "From snapshot",
      box.source_snapshot_id ? h("span", { class: "mono" }, box.source_snapshot_id) : "none",
      box.source_snapshot_id,
    ],
    ["Backend", box.backend ?? "docker"],
    ...Object.entries(box.labels ?? {}).map(([k, v]) => [
      `Label ${visible(k)}`,
      h("bdi", null, visible(v)),
      v,
    ]),
  ];
  const curl = `curl -sH "X-API-Key: $KEY" --json '{"command": "echo hi"}' ${new URL(`v1/sandboxes/${box.id}/exec`, BASE)}`;
  return [
    h(
      "dl",
      null,
      rows.map(([k, v, text]) =>
        h("div", null, h("dt", null, k), h("dd", null, v, text ? copyButton(text, `Copy: ${k}`) : null)),
      ),
    ),
    h("h3", null, "From a shell"),
    codeBox(curl, curl, "curl line", { class: "curl" }),
  ];
}

export function boxPage(id, { back }) {
  const terminal = new CommandLine(id, { ended: () => files.load() });
  const files = new FilesPane(id);
  const tree = treePane(id, { rolledBack: () => files.load() });
  const facts = h("div", { class: "pane details scroll", tabIndex: 0 });
  const panes = {
    terminal: ["Command line", terminal],
    files: ["Files", files],
    tree: ["Snapshots", tree],
    details: ["Details", { element: facts }],
  };

  const dot = h("span", { class: "dot" });
  const name = h("h2");
  const about = h("p", { class: "facts" });
  const time = h("span", { class: "left" });
  const gone = h("div", { class: "gone", role: "alert", hidden: true });
  const longer = button("Extend", { icon: "time", click: () => extend(sandboxes.get(id)) });
  const keep = button("Snapshot", { icon: "camera", click: () => takeSnapshot(id) });
  const end = button("Destroy", {
    icon: "trash",
    kind: "danger",
    click: () => destroy(sandboxes.get(id), () => ended(true), back),
  });
  const tabs = {};
  const panels = {};
  for (const [key, [label, pane]] of Object.entries(panes)) {
    tabs[key] = h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${key}-${id}`,
        "aria-controls": `panel-${key}-${id}`,
        class: `tab-${key}`,
        on: { click: () => select(key) },
      },
      label,
    );
    panels[key] = h(
      "section",
      {
        role: "tabpanel",
        id: `panel-${key}-${id}`,
        "aria-labelledby": `tab-${key}-${id}`,
        class: `panel panel-${key}`,
      },
      pane.element,
    );
  }
  const bar = h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": "Parts of the sandbox" },
    Object.values(tabs),
  );
  const element = h(
    "article",
    { class: "box" },
    h(
      "header",
      null,
      h(
        "div",
        { class: "title" },
        button("All sandboxes", { icon: "back", hide: true, kind: "back", click: back }),
        dot,
        name,
        copyButton(id, "Copy the id"),
        about,
      ),
      h("div", { class: "actions" }, time, longer, keep, end),
    ),
    gone,
    h(
      "div",
      { class: "work" },
      panels.terminal,
      h("div", { class: "side" }, bar, panels.files, panels.tree, panels.details),
    ),
  );
  let selected = "terminal";
  let drawn = null;

  function select(key, focus = false) {
    selected = key;
    layout();
    if (focus) tabs[key].focus();
  }

  // Where there is room the command line is always there, and the tabs are for the rest.
  function layout() {
    const roomy = wide.matches;
    const side = roomy && selected === "terminal" ? "files" : selected;
    const before = panels.terminal.parentNode;
    const parent = roomy ? element.querySelector(".work") : element.querySelector(".side");
    if (before !== parent) parent.insertBefore(panels.terminal, roomy ? parent.firstChild : panels.files);
    tabs.terminal.hidden = roomy;
    panels.terminal.setAttribute("role", roomy ? "region" : "tabpanel");
    for (const [key, tab] of Object.entries(tabs)) {
      const on = key === side;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      panels[key].hidden = !on && !(roomy && key === "terminal");
    }
    if (side === "tree") tree.draw();
    if (side === "files" && !element.classList.contains("ended")) files.load();
    if (!panels.terminal.hidden) terminal.settle();
  }

  bar.addEventListener("keydown", (e) => {
    const keys = Object.keys(tabs).filter((k) => !tabs[k].hidden);
    const at = keys.findIndex((k) => tabs[k] === e.target);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + keys.length, Home: 0, End: keys.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    select(keys[to % keys.length], true);
  });

  function tick() {
    if (!element.isConnected) return;
    const box = sandboxes.get(id);
    if (box) {
      const t = left(box);
      time.textContent = t > 0 ? `${span(t)} left` : "ending";
      time.className = `left ${urgency(t)}`;
      time.title = `until ${stamp(box.expires_at)}`;
    }
    tree.tick();
  }

  function draw() {
    const box = sandboxes.get(id);
    if (!box) {
      over();
      return;
    }
    if (drawn === box) return;
    drawn = box;
    dot.className = `dot ${box.status}`;
    fill(dot, h("span", { class: "sr" }, box.status));
    fill(name, nameOf(box));
    name.className = box.labels?.name ? "" : "mono";
    const parts = [
      visible(box.image),
      `${box.cpus} CPU`,
      memory(box.memory_mb),
      `${box.pids_limit} processes`,
      box.network ? "network" : "no network",
      box.read_only_rootfs ? null : "writable root",
    ];
    fill(about, (box.labels?.name ? [box.id] : []).concat(parts.filter(Boolean)).join(" \u00b7 "));
    fill(facts, details(box));
    tick();
  }

  function ended(yes) {
    gone.hidden = !yes;
    element.classList.toggle("ended", yes);
    for (const b of [longer, keep, end]) b.disabled = yes;
    terminal.enable(!yes);
    if (!yes) return;
    dot.className = "dot ended";
    time.textContent = "ended";
    time.className = "left";
  }

  // It ended while the page was open: the server says why.
  async function over() {
    if (!gone.hidden || !world.loaded) return;
    ended(true);
    let reason = `sandbox ${id} has ended`;
    try {
      await call("GET", `v1/sandboxes/${id}`, { query: { detail: true } });
      ended(false);
      await refresh();
      return;
    } catch (error) {
      reason = words(error);
    }
    fill(
      gone,
      h("span", null, `${reason}. `),
      h("span", null, "What is here is what the page remembers."),
      button("Back to the list", { kind: "small", click: back }),
    );
    tree.draw();
  }

  const life = new AbortController();
  world.addEventListener("sandboxes", draw, { signal: life.signal });
  wide.addEventListener("change", layout, { signal: life.signal });
  const clock = setInterval(tick, 1000);

  return {
    element,
    busy: () => terminal.busy() || files.busy(),
    enter() {
      draw();
      layout();
      tick();
      if (wide.matches) terminal.focus();
    },
    leave() {},
    end() {
      life.abort();
      clearInterval(clock);
      terminal.end();
      files.end();
      tree.end();
    },
  };
}
