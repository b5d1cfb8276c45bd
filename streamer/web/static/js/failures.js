// Why trials failed: groups of alike ones, each one click from its trials.

import { drawn, runPath } from "./api.js";
import { card, count, DrawnTable, h } from "./shared.js";
import { Trouble } from "./trouble.js";

const FIRST = 6;

export class Failures {
  // choose(failure_mode, kind): show the trials of a group
  constructor(run, choose) {
    this.run = run;
    this.all = h("button", { type: "button", class: "plain", onclick: () => this.showAll() });
    this.table = new DrawnTable("Why trials failed", {
      onopen: (key) => {
        const [mode, kind] = JSON.parse(key);
        choose(mode ?? "", kind);
      },
    });
    this.element = card("Why trials failed", [this.all], this.table.element);
    this.element.hidden = true;
    this.trouble = new Trouble(this.element, () => this.load());
  }

  async load() {
    try {
      this.found = (await drawn(runPath(this.run, "/failures"))).failures;
      this.trouble.over();
      this.draw();
    } catch (error) {
      this.trouble.tell(error);
      this.table.element.hidden = this.groups() === 0;
      this.element.hidden = false;
    }
  }

  groups = () => this.found?.[""].order.length ?? 0;

  showAll() {
    this.whole = !this.whole;
    this.draw();
  }

  draw() {
    this.element.hidden = this.groups() === 0;
    this.table.element.hidden = false;
    this.all.hidden = this.groups() <= FIRST;
    this.all.textContent = this.whole ? `The first ${FIRST}` : `All ${count(this.groups())}`;
    this.table.take(this.found, this.whole ? undefined : FIRST);
  }

  close() {
    this.trouble.close();
  }
}
