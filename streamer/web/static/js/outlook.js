// Trials that are running, and what becomes of a budget.

import { drawn, runPath } from "./api.js";
import { card, count, DrawnTable, h, visible } from "./shared.js";

const SHOWN = 8;

export class Running {
  constructor() {
    this.all = false;
    this.found = null;
    this.table = new DrawnTable("Trials that are running");
    this.more = h("button", { type: "button", class: "plain", onclick: () => this.unfold() });
    this.element = card("Running trials", [], this.table.element, h("p", { class: "body" }, this.more));
    this.element.hidden = true;
  }

  unfold() {
    this.all = !this.all;
    this.draw();
  }

  // Rows that have not changed may be missing: they are kept for when all are shown, and until they are over.
  take(parts) {
    const found = { ...this.found, ...parts };
    this.found = Object.fromEntries(["", ...found[""].order].map((key) => [key, found[key]]));
    this.draw();
  }

  draw() {
    const total = this.found[""].order.length;
    this.element.hidden = total === 0;
    if (total) this.table.take(this.found, this.all ? undefined : SHOWN);
    this.more.textContent = this.all ? "Show fewer" : `Show all ${count(total)}`;
    this.more.parentElement.hidden = total <= SHOWN;
  }
}

// "forecast: the budget of $40.00 is passed about 03:10 UTC", or why the server does not take the budget.
export async function budgetWords(run, budget) {
  try {
    return (await drawn(runPath(run, "/outlook"), { budget })).budget;
  } catch (error) {
    return error.status === 400 ? visible(error.message) : null;
  }
}
