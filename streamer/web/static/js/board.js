// The board: every agent:model of a run, sortable.

import { BOARDS, WORDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { h, name, visible } from "./dom.js";
import { color } from "./metrics.js";
import { withNamed } from "./named.js";
import { Table } from "./table.js";
import { footnotes } from "./uncertainty.js";

export class Board {
  // link(label): address of an agent's trials; null: names lead nowhere
  constructor(link = null) {
    this.link = link;
    this.table = new Table(columnsOf("agents", []), {
      caption: "Agents of this run",
      key: (agent) => agent.agent_model,
      sort: { id: "pass_rate", descending: true },
      rowClass: (agent) => (agent.baseline ? "baseline" : ""),
      primary: "pass_rate",
      empty: "No trial has been counted yet.",
    });
    this.notes = h("div", { class: "note notes" });
    this.element = h("div", {}, this.table.element, this.notes);
  }

  // primary: the metric that the plan sorts by; outlook: with the places of the agents; null: not known
  update(summaries, indexOf, primary = "pass_rate", outlook = null) {
    const agents = summaries.map((agent) => ({ ...agent, place: outlook?.places[agent.agent_model] ?? null }));
    this.table.setColumns(columnsOf(withNamed(BOARDS.agents, agents), agents, { agent: who(indexOf, this.link) }));
    this.table.options.primary = primary;
    this.table.sortFirst(primary);
    this.table.update(agents);
    const ranked = agents.some((agent) => agent.place !== null);
    const lines = [...footnotes(agents), ranked ? WORDS.places : null, outlook?.places_missing ? `No places: ${outlook.places_missing}.` : null, ...[...(outlook?.first_two ?? []), ...(outlook?.errors ?? []).map((budget) => budget.words)].map((words) => `${visible(words)}.`)];
    this.notes.replaceChildren(...lines.filter(Boolean).map((line) => h("p", {}, line)));
  }
}

// The label with the colour that it has in the charts.
const who = (indexOf, link) => (agent) => {
  const swatch = h("span", { class: "swatch", "--color": color(indexOf(agent.agent_model)), "aria-hidden": "true" });
  const baseline = agent.baseline ? h("span", { class: "badge" }, "baseline") : null;
  return h("span", { class: "who" }, swatch, link ? h("a", { href: link(agent.agent_model) }, name(agent.agent_model)) : name(agent.agent_model), baseline);
};
