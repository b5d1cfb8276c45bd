// The files that a trial left: each opens in its place, read by the server as steps, lines, a diff or a recording.

import { get, runPath } from "./api.js";
import { linesView } from "./log.js";
import { h, name } from "./shared.js";
import { stepsView } from "./steps.js";

// opened(number): which file is open now, null for none, so that the address can follow
export class Files {
  constructor(run, trial, files, opened) {
    this.path = (number, rest = "") => runPath(run, `/trials/${trial}/artifacts/${number}${rest}`);
    this.opened = opened;
    this.pane = h("div", { class: "file", "aria-live": "polite" });
    this.buttons = new Map();
    const list = h("ul", { class: "files" }, ...files.map((file) => h("li", {}, this.entry(file))));
    const closed = files.find((file) => file.closed)?.closed;
    const note = closed ? h("p", { class: "note" }, closed) : null;
    this.element = files.length ? h("section", {}, h("h3", {}, "Files"), list, note, this.pane) : null;
  }

  entry(file) {
    if (file.url) return h("a", { href: file.url, target: "_blank", rel: "noopener noreferrer nofollow" }, name(file.name), " ↗");
    if (file.closed) return h("span", { class: "note" }, name(file.path));
    const button = h("button", { type: "button", class: "plain", "aria-expanded": "false", onclick: () => this.toggle(file.number) }, name(file.name));
    this.buttons.set(file.number, button);
    return button;
  }

  toggle(number) {
    const open = this.buttons.get(number)?.getAttribute("aria-expanded") === "true";
    this.opened(open ? null : number);
    if (open) this.close();
    else this.open(number);
  }

  close() {
    this.shown = null;
    for (const button of this.buttons.values()) button.setAttribute("aria-expanded", "false");
    this.pane.replaceChildren();
  }

  async open(number) {
    if (!this.buttons.has(number)) return;
    this.close();
    this.shown = number;
    this.buttons.get(number).setAttribute("aria-expanded", "true");
    this.pane.replaceChildren(h("p", { class: "note" }, "Loading…"));
    const found = await this.read(number);
    if (this.shown === number) this.pane.replaceChildren(found);
  }

  async read(number) {
    try {
      const view = await get(this.path(number));
      if (view.kind === "steps") return stepsView(view);
      return view.kind === "cast" ? this.player(number) : linesView(view);
    } catch (error) {
      return h("p", { class: "error", role: "alert" }, error.message);
    }
  }

  // Without an origin of its own: it can play what stands in it, and reach nothing.
  player(number) {
    return h("iframe", { class: "player", title: "Recording of the terminal", sandbox: "allow-scripts", src: this.path(number, "/player") });
  }
}
