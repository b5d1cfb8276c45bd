// Why trials failed, in groups of alike messages; a group leads to its trials.

import { drawn, runPath } from "./api.js";
import { card, FoldedTable } from "./shared.js";
import { Asking } from "./trouble.js";

const FIRST = 6;

export class Failures {
  // choose(failure_mode, kind): show the trials of a group
  constructor(run, choose) {
    this.table = new FoldedTable("Groups of failures", FIRST, { onopen: (key) => choose(...JSON.parse(key)) });
    this.element = card("Why trials failed", [this.table.more], this.table.element);
    this.element.hidden = true;
    this.asking = new Asking(this.element, (signal) => this.load(run, signal), () => this.show(false));
    this.asking.ask();
  }

  async load(run, signal) {
    this.table.fold((await drawn(runPath(run, "/failures"), {}, signal)).failures);
    this.show(true);
  }

  // Without any group there is only what went wrong.
  show(answered) {
    this.table.element.hidden = !this.table.total;
    this.element.hidden = answered && !this.table.total;
  }
}
