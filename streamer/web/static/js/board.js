// The board: every agent:model of a run, sortable.

import { BOARDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { h, name } from "./dom.js";
import { color } from "./metrics.js";
import { withNamed } from "./named.js";
import { Table } from "./table.js";

export class Board {
  // link(label): address of an agent's trials; null: names lead nowhere
  constructor(link = null) {
    this.link = link;
    this.table = new Table(columnsOf("agents", []), {
      caption: "Agents of this run",
      key: (agent) => agent.agent_model,
      sort: { id: "pass_rate", descending: true },
      rowClass: (agent) => (agent.baseline ? "baseline" : ""),
      empty: "No trial has been counted yet.",
    });
    this.element = this.table.element;
  }

  // primary: the metric that the plan sorts by
  update(agents, indexOf, primary = "pass_rate") {
    this.table.setColumns(columnsOf(withNamed(BOARDS.agents, agents), agents, { agent: who(indexOf, this.link) }));
    this.table.sortFirst(primary);
    this.table.update(agents);
  }
}

// The label with the colour that it has in the charts.
const who = (indexOf, link) => (agent) => {
  const swatch = h("span", { class: "swatch", "--color": color(indexOf(agent.agent_model)), "aria-hidden": "true" });
  const baseline = agent.baseline ? h("span", { class: "badge" }, "baseline") : null;
  return h("span", { class: "who" }, swatch, link ? h("a", { href: link(agent.agent_model) }, name(agent.agent_model)) : name(agent.agent_model), baseline);
};
