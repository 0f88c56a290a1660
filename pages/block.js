// One command that was run: what it was, its output as it comes, how it ended.
import { ndjson, request } from "./api.js";
import { errorBox } from "./dialog.js";
import { button, copyButton, duration, fill, h, newId, plural, say, visible, visibleText } from "./dom.js";
import { Screen } from "./screen.js";

const READ_OUT_MAX = 600;
const CUT = "The connection was cut before the command ended: its result is not known.";

export class Block {
  // again: puts the command back into the command line; grew: the output has changed its height.
  constructor({ command, workdir, again, grew }) {
    this.grew = grew;
    this.abort = new AbortController();
    this.running = true;
    this.screen = new Screen(grew);
    this.state = h("span", { class: "state" });
    this.stop = button("Cancel", { icon: "stop", kind: "small", click: () => this.cancel() });
    this.trouble = h("div");
    const prompt = [h("span", { class: "where" }, visible(workdir)), h("span", { class: "mark" }, " $ ")];
    const tools = [
      copyButton(() => this.screen.read(), "Copy the output"),
      button("Put the command into the command line", { icon: "redo", hide: true, click: again }),
    ];
    this.element = h(
      "article",
      {
        class: "block running",
        id: newId("command"),
        "aria-label": `Command ${visible(command.slice(0, 80))}`,
      },
      h(
        "header",
        null,
        h("code", null, prompt, visibleText(command)),
        this.state,
        this.stop,
        h("span", { class: "tools" }, tools),
      ),
      this.screen.element,
      this.trouble,
    );
  }

  cancel() {
    this.abort.abort();
  }

  // Runs it. Resolves to the exit event; to null when there is no result; never rejects.
  async run(id, fields) {
    const began = performance.now();
    const took = () => duration(performance.now() - began);
    const clock = setInterval(
      () => fill(this.state, h("span", { class: "spin", "aria-hidden": "true" }), took()),
      250,
    );
    try {
      const last = await this.follow(id, fields);
      if (last?.type === "exit") return this.exited(last);
      this.lost(new Error(last?.type === "error" ? last.data : CUT));
    } catch (error) {
      if (this.abort.signal.aborted) this.finish("bad", `cancelled after ${took()}`, "Cancelled");
      else this.lost(error.status === undefined ? new Error(CUT) : error);
    } finally {
      clearInterval(clock);
    }
    return null;
  }

  // Shows what comes; the last event.
  async follow(id, fields) {
    const path = `v1/sandboxes/${id}/exec/stream`;
    const response = await request("POST", path, { json: fields, signal: this.abort.signal });
    let last = null;
    for await (const event of ndjson(response)) {
      last = event;
      if (event.type === "stdout" || event.type === "stderr") this.screen.write(event.type, event.data);
    }
    return last;
  }

  exited(event) {
    const { exit_code: code, timed_out: late } = event;
    const took = duration(event.duration_ms);
    this.screen.end();
    if (late) this.finish("bad", `timed out after ${took}`, `Timed out after ${took}`);
    else {
      const spoken = `Exit code ${code}, ${plural(this.screen.count, "line")}`;
      this.finish(code === 0 ? "good" : "bad", `exit ${code} \u00b7 ${took}`, spoken);
    }
    return event;
  }

  lost(error) {
    fill(this.trouble, errorBox(error));
    this.finish("bad", "no result", "No result");
  }

  // Little output is read out with the result; much is there to be read.
  finish(kind, text, spoken) {
    this.running = false;
    this.screen.end();
    this.element.className = `block ${kind}`;
    this.stop.remove();
    fill(this.state, text);
    const out = this.screen.read();
    say(out.length > 0 && out.length <= READ_OUT_MAX ? `${spoken}. ${out}` : spoken);
    this.grew();
  }
}
