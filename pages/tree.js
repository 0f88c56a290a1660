// The tree of snapshots and forks around a sandbox, drawn from what the server lists.
import { now } from "./api.js";
import { ago, button, copyButton, fill, h, icon, plural, say, size, span, stamp, successor } from "./dom.js";
import { family, lineage } from "./lineage.js";
import { left, nameOf, short, urgency } from "./list.js";
import { fork, remove, rollBack, takeSnapshot, title } from "./snapshots.js";
import { sandboxes, snapshots, world } from "./world.js";

const NODES_MAX = 300;
const ABOUT =
  "A snapshot keeps /workspace as it is now. You can roll back to it, or fork it: begin other sandboxes there.";

export class TreePane {
  // rolledBack(): the files are others now.
  constructor(id, { rolledBack }) {
    this.id = id;
    this.rolledBack = rolledBack;
    this.clocks = [];
    this.place = h("div", {
      class: "scroll",
      tabIndex: 0,
      role: "region",
      "aria-label": "Snapshots and forks",
    });
    this.all = h("input", { type: "checkbox", id: `all-${id}` });
    const choice = h(
      "div",
      { class: "field check grow" },
      this.all,
      h("label", { for: this.all.id }, "All trees of this server"),
    );
    const take = button("Take a snapshot", { icon: "camera", click: () => takeSnapshot(id) });
    this.element = h(
      "div",
      { class: "pane treepane" },
      h("div", { class: "bar-row" }, choice, take),
      this.place,
    );
    this.all.addEventListener("change", () => {
      this.draw();
      say(plural(this.place.querySelectorAll(".node").length, "row"));
    });
    this.life = new AbortController();
    const { signal } = this.life;
    world.addEventListener("snapshots", () => this.draw(), { signal });
    world.addEventListener("sandboxes", () => this.draw(), { signal });
  }

  draw() {
    if (!this.element.isConnected) return;
    const focused = this.place.contains(document.activeElement) ? document.activeElement : null;
    const roots = lineage(sandboxes.values(), snapshots.values());
    const shown = this.all.checked ? roots : family(roots, this.id);
    this.clocks = [];
    this.budget = NODES_MAX;
    const top = this.branch(shown);
    top.className = "tree";
    const foot = (text) => h("p", { class: "foot" }, text);
    fill(
      this.place,
      shown.length ? top : foot("No snapshots yet."),
      this.budget < 0 ? foot(`Only the first ${NODES_MAX} are shown.`) : null,
      snapshots.size === 0 ? foot(ABOUT) : null,
    );
    this.tick();
    if (focused) (successor(focused, this.place) ?? this.place).focus();
  }

  branch(nodes) {
    const items = [];
    for (const n of nodes) {
      if (this.budget-- <= 0) break;
      items.push(h("li", null, this.row(n), n.children.length ? this.branch(n.children) : null));
    }
    return h("ul", null, items);
  }

  row(n) {
    if (n.kind === "snapshot") return this.snapshot(n.item);
    if (n.kind === "sandbox") return this.sandbox(n.item);
    const start = n.kind === "start";
    const ended = sandboxes.has(n.id) ? "" : ", which has ended";
    return h(
      "div",
      { class: "node root" },
      icon(start ? "box" : "trash"),
      h(
        "span",
        { class: "label" },
        h("span", null, start ? "Empty workspace" : "Deleted snapshot"),
        h("small", { class: "mono" }, start ? `start of ${short(n.id)}${ended}` : n.id),
      ),
    );
  }

  snapshot(s) {
    const when = h("span", { title: stamp(s.created_at) });
    this.clocks.push(() => (when.textContent = ago(now() - Date.parse(s.created_at))));
    const by = s.sandbox_id === this.id ? "" : ` \u00b7 by ${short(s.sandbox_id)}`;
    const id = s.name ? h("span", { class: "mono", title: s.id }, ` \u00b7 ${short(s.id)}`) : null;
    const name = h("strong", { class: s.name ? "" : "mono" }, h("bdi", null, title(s)));
    const facts = h("small", null, when, ` \u00b7 ${size(s.size_bytes)}${by}`, id);
    return h(
      "div",
      { class: "node snapshot" },
      icon("camera"),
      h("span", { class: "label" }, name, facts),
      h("span", { class: "tools" }, this.tools(s)),
    );
  }

  tools(s) {
    const small = (text, shape, label, click) =>
      button(text, { icon: shape, kind: "small", "aria-label": label, click });
    const back = () => rollBack(this.id, s, this.rolledBack);
    return [
      copyButton(s.id, `Copy the id of ${title(s)}`),
      sandboxes.has(this.id) ? small("Roll back", "undo", `Roll back to ${title(s)}`, back) : null,
      small("Fork", "fork", `Fork ${title(s)}`, () => fork(s)),
      button(`Delete ${title(s)}`, { icon: "trash", hide: true, click: () => remove(s) }),
    ];
  }

  sandbox(b) {
    const mine = b.id === this.id;
    const time = h("span");
    this.clocks.push(() => {
      const seconds = left(b);
      time.textContent = seconds > 0 ? `${span(seconds)} left` : "ending";
      time.className = urgency(seconds);
    });
    const name = h("span", { class: b.labels?.name ? "" : "mono" }, nameOf(b));
    return h(
      "div",
      { class: `node sandbox ${mine ? "mine" : ""}` },
      h("span", { class: `dot ${b.status}` }, h("span", { class: "sr" }, b.status)),
      h(
        "span",
        { class: "label" },
        mine ? h("strong", null, name) : h("a", { href: `#${b.id}` }, name),
        b.labels?.name ? h("small", { class: "mono" }, short(b.id)) : null,
        h("small", null, mine ? "this sandbox stands here" : time),
      ),
    );
  }

  tick() {
    for (const clock of this.clocks) clock();
  }

  end() {
    this.life.abort();
  }
}
