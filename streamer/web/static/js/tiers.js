// The tiers of a run as the server draws them: pooled over the agents, or each agent within each tier.

import { card, DrawnTable, h, made, segments, select, WORDS } from "./shared.js";

export class Tiers {
  // ask(): what is drawn has changed
  constructor(ask) {
    this.view = { view: "tiers", within: "false", spread: "pass_rate" };
    const again = (key) => (value) => {
      this.view[key] = value;
      ask();
    };
    this.table = new DrawnTable("Tiers of this run");
    this.facts = h("dl", { class: "facts line" });
    this.choice = select("Spread of", [], "", again("spread"));
    const grouping = segments("Rows", [["false", "Pooled"], ["true", "By agent"]], "false", again("within"));
    const key = h("p", { class: "note body" }, "Spread: line from min to max, band one standard deviation around the mean (dot), bar at the median.");
    const marks = h("span", { class: "note" }, WORDS.grade_marks);
    this.element = card("Tiers", [this.choice.element, grouping, marks], this.table.element, this.table.notes, this.facts, key);
  }

  take({ tiers, spreads }) {
    if (spreads) this.choice.offer(spreads[""].offered);
    if (spreads) this.facts.replaceChildren(...spreads[""].across.map((fact) => made(fact)));
    if (tiers) this.table.take(tiers);
  }
}
