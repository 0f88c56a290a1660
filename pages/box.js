// One sandbox: its head with time and actions, the command line, and beside it files, snapshots and details.
import { BASE, call } from "./api.js";
import { CommandLine } from "./command.js";
import { seconds } from "./create.js";
import { confirm, field, formDialog, input, words } from "./dialog.js";
import { button, codeBox, copyButton, fill, h, memory, say, span, stamp, visible } from "./dom.js";
import { FilesPane } from "./files.js";
import { left, nameOf, reach, urgency } from "./list.js";
import { takeSnapshot } from "./snapshots.js";
import { TreePane } from "./tree.js";
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

// What is good to know at a glance.
function summary(box) {
  const parts = [
    box.labels?.name ? box.id : null,
    visible(box.image),
    `${box.cpus} CPU`,
    memory(box.memory_mb),
    `${box.pids_limit} processes`,
    reach(box) || "no way out",
    box.read_only_rootfs ? null : "writable root",
  ];
  return parts.filter(Boolean).join(" \u00b7 ");
}

function details(box) {
  const hosts = (box.egress_allowlist ?? []).join(" ");
  const rows = [
    ["Id", h("span", { class: "mono" }, box.id), box.id],
    ["Status", box.status],
    ["Image", visible(box.image), box.image],
    ["CPUs", String(box.cpus)],
    ["Memory", memory(box.memory_mb)],
    ["Processes", `at most ${box.pids_limit}`],
    ["Way out", hosts ? h("bdi", null, visible(hosts)) : reach(box) || "none", hosts],
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

// A part of the work area: its tab, and the panel that the tab shows.
function part(id, key, label, element, select) {
  const tab = h(
    "button",
    {
      type: "button",
      role: "tab",
      id: `tab-${key}-${id}`,
      "aria-controls": `panel-${key}-${id}`,
      class: `tab-${key}`,
      on: { click: select },
    },
    label,
  );
  const panel = h(
    "section",
    {
      role: "tabpanel",
      id: `panel-${key}-${id}`,
      "aria-labelledby": tab.id,
      class: `panel panel-${key}`,
    },
    element,
  );
  return { key, tab, panel };
}

export class BoxPage {
  // back(): to the list.
  constructor(id, { back }) {
    this.id = id;
    this.back = back;
    this.selected = "terminal";
    this.drawn = null;
    this.over = false;
    this.terminal = new CommandLine(id, { ended: () => this.files.load() });
    this.files = new FilesPane(id);
    this.tree = new TreePane(id, { rolledBack: () => this.files.load() });
    this.facts = h("div", {
      class: "pane details scroll",
      tabIndex: 0,
      role: "region",
      "aria-label": "Details",
    });
    this.parts = [
      ["terminal", "Command line", this.terminal.element],
      ["files", "Files", this.files.element],
      ["tree", "Snapshots", this.tree.element],
      ["details", "Details", this.facts],
    ].map(([key, label, element]) => part(id, key, label, element, () => this.select(key)));
    this.element = h("article", { class: "box" }, this.makeHead(), this.makeGone(), this.makeWork());
    this.life = new AbortController();
    const { signal } = this.life;
    world.addEventListener("sandboxes", () => this.draw(), { signal });
    wide.addEventListener("change", () => this.layout(), { signal });
    this.clock = setInterval(() => this.tick(), 1000);
  }

  makeHead() {
    const now = () => sandboxes.get(this.id);
    this.dot = h("span", { class: "dot" });
    this.name = h("h2");
    this.about = h("p", { class: "facts" });
    this.time = h("span", { class: "left" });
    this.actions = [
      button("Extend", { icon: "time", click: () => extend(now()) }),
      button("Snapshot", { icon: "camera", click: () => takeSnapshot(this.id) }),
      button("Destroy", {
        icon: "trash",
        kind: "danger",
        click: () => destroy(now(), () => this.end(true), this.back),
      }),
    ];
    const back = button("All sandboxes", { icon: "back", hide: true, kind: "back", click: this.back });
    const copy = copyButton(this.id, "Copy the id");
    return h(
      "header",
      null,
      h("div", { class: "title" }, back, this.dot, this.name, copy, this.about),
      h("div", { class: "actions" }, this.time, this.actions),
    );
  }

  makeGone() {
    this.gone = h("div", { class: "gone", role: "alert", hidden: true });
    return this.gone;
  }

  makeWork() {
    this.tabs = h(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "Parts of the sandbox" },
      this.parts.map((p) => p.tab),
    );
    this.tabs.addEventListener("keydown", (e) => this.key(e));
    const [terminal, ...others] = this.parts.map((p) => p.panel);
    this.side = h("div", { class: "side" }, this.tabs, others);
    this.work = h("div", { class: "work" }, terminal, this.side);
    return this.work;
  }

  select(key, focus = false) {
    this.selected = key;
    this.layout();
    if (focus) this.parts.find((p) => p.key === key).tab.focus();
  }

  // Where there is room the command line is always there, and the tabs are for the rest.
  layout() {
    const roomy = wide.matches;
    const shown = roomy && this.selected === "terminal" ? "files" : this.selected;
    const { tab, panel } = this.parts[0];
    const place = roomy ? this.work : this.side;
    if (panel.parentNode !== place) place.insertBefore(panel, roomy ? this.side : this.parts[1].panel);
    tab.hidden = roomy;
    panel.setAttribute("role", roomy ? "region" : "tabpanel");
    for (const p of this.parts) {
      const on = p.key === shown;
      p.tab.setAttribute("aria-selected", String(on));
      p.tab.tabIndex = on ? 0 : -1;
      p.panel.hidden = !on && !(roomy && p.key === "terminal");
    }
    if (shown === "tree") this.tree.draw();
    if (shown === "files" && !this.over) this.files.load();
    if (!panel.hidden) this.terminal.settle();
  }

  key(e) {
    const keys = this.parts.filter((p) => !p.tab.hidden);
    const at = keys.findIndex((p) => p.tab === e.target);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1 + keys.length, Home: 0, End: keys.length - 1 };
    if (steps[e.key] === undefined) return;
    e.preventDefault();
    this.select(keys[steps[e.key] % keys.length].key, true);
  }

  tick() {
    const box = sandboxes.get(this.id);
    if (!this.element.isConnected) return;
    if (box && !this.over) {
      const seconds = left(box);
      this.time.textContent = seconds > 0 ? `${span(seconds)} left` : "ending";
      this.time.className = `left ${urgency(seconds)}`;
      this.time.title = `until ${stamp(box.expires_at)}`;
    }
    this.tree.tick();
  }

  draw() {
    const box = sandboxes.get(this.id);
    if (!box) {
      this.explain();
      return;
    }
    if (this.over) this.end(false);
    if (this.drawn === box) return;
    this.drawn = box;
    this.dot.className = `dot ${box.status}`;
    fill(this.dot, h("span", { class: "sr" }, box.status));
    fill(this.name, nameOf(box));
    this.name.className = box.labels?.name ? "" : "mono";
    fill(this.about, summary(box));
    fill(this.facts, details(box));
    this.tick();
  }

  // It has ended; or, with false, it is there after all.
  end(yes) {
    this.over = yes;
    this.element.classList.toggle("ended", yes);
    for (const b of this.actions) b.disabled = yes;
    this.terminal.enable(!yes);
    this.gone.hidden = true;
    this.drawn = null;
    if (!yes) return;
    this.dot.className = "dot ended";
    this.time.textContent = "ended";
    this.time.className = "left";
  }

  // It ended while the page was open: the server says why.
  async explain() {
    if (this.over || !world.loaded) return;
    this.end(true);
    let reason = `sandbox ${this.id} has ended`;
    try {
      await call("GET", `v1/sandboxes/${this.id}`, { query: { detail: true } });
      this.end(false);
      await refresh();
      return;
    } catch (error) {
      reason = words(error);
    }
    this.gone.hidden = false;
    fill(
      this.gone,
      h("span", null, `${reason}. `),
      h("span", null, "What is here is what the page remembers."),
      button("Back to the list", { kind: "small", click: this.back }),
    );
    this.tree.draw();
  }

  enter() {
    this.draw();
    this.layout();
    this.tick();
    if (wide.matches) this.terminal.focus();
  }

  busy() {
    return this.terminal.busy() || this.files.busy();
  }

  // No longer needed: what runs is cancelled, nothing ticks.
  close() {
    this.life.abort();
    clearInterval(this.clock);
    this.terminal.end();
    this.files.end();
    this.tree.end();
  }
}
