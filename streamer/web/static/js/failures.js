// Why trials failed: groups of alike ones, each one click from its trials.

import { get, runPath } from "./api.js";
import { card, h, name } from "./dom.js";
import { count, percent } from "./format.js";
import { Table } from "./table.js";
import { Trouble } from "./trouble.js";

const FIRST = 6;

export class Failures {
  // choose(failure_mode, kind): show the trials of a group
  constructor(run, choose) {
    this.run = run;
    this.choose = choose;
    this.groups = [];
    this.all = h("button", { type: "button", class: "plain", onclick: () => this.showAll() });
    this.table = new Table(this.columns(), { caption: "Why trials failed", key: (group) => `${group.failure_mode}\n${group.kind}`, empty: "No trial has failed." });
    this.element = card("Why trials failed", [this.all], this.table.element);
    this.element.hidden = true;
    this.trouble = new Trouble(this.element, () => this.load());
  }

  columns() {
    const open = (group) => h("button", { type: "button", class: "link", onclick: () => this.choose(group.failure_mode ?? "", group.kind) }, count(group.count));
    const agents = (group) => Object.keys(group.agents);
    return [
      { id: "count", title: "Trials", number: true, cell: open },
      { id: "share", title: "Share", hint: "Of the trials that did not succeed", number: true, cell: (group) => percent(group.share) },
      { id: "mode", title: "Failure", cell: (group) => (group.failure_mode === null ? "–" : name(group.failure_mode)) },
      { id: "kind", title: "Message", cell: (group) => (group.kind ? h("span", { title: null }, name(group.count > 1 ? group.kind : group.example)) : h("span", { class: "note" }, "no message")) },
      { id: "agents", title: "Agents", cell: (group) => h("span", {}, name(agents(group)[0]), agents(group).length > 1 ? ` and ${count(agents(group).length - 1)} more` : "") },
    ];
  }

  async load() {
    try {
      this.groups = await get(runPath(this.run, "/failures"));
      this.trouble.over();
      this.draw();
    } catch (error) {
      this.trouble.tell(error);
      this.table.element.hidden = this.groups.length === 0;
      this.element.hidden = false;
    }
  }

  showAll() {
    this.whole = !this.whole;
    this.draw();
  }

  draw() {
    this.element.hidden = this.groups.length === 0;
    this.table.element.hidden = false;
    this.all.hidden = this.groups.length <= FIRST;
    this.all.textContent = this.whole ? `The first ${FIRST}` : `All ${count(this.groups.length)}`;
    this.table.update(this.whole ? this.groups : this.groups.slice(0, FIRST));
  }

  close() {
    this.trouble.close();
  }
}
