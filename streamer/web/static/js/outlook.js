// Running trials, and what becomes of a budget.

import { drawn, runPath } from "./api.js";
import { card, FoldedTable, h, visible } from "./shared.js";

const SHOWN = 8;

export class Running {
  constructor() {
    this.table = new FoldedTable("Trials under way", SHOWN);
    this.element = card("Running trials", [], this.table.element, h("p", { class: "body" }, this.table.more));
    this.element.hidden = true;
  }

  take(parts) {
    this.table.fold(parts);
    this.element.hidden = this.table.total === 0;
    this.table.more.parentElement.hidden = this.table.more.hidden;
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
