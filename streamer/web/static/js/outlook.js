// What a run still has before it: forecasts, running trials, places. Asked for again when the run has changed.

import { get, runPath } from "./api.js";
import { WORDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { card, h, visible } from "./dom.js";
import { clock, count, usdRough } from "./format.js";
import { Table } from "./table.js";
import { passes } from "./trouble.js";

const REST_MS = 2000;
const AGE_MS = 30_000;
const SHOWN = 8;

export class Outlook {
  // budget: USD that the run should not cost more than, as text; "": none
  constructor(run, changed, budget = "") {
    [this.run, this.changed, this.budget] = [run, changed, budget];
    this.found = null;
    this.refused = null; // why the server does not take the budget
    this.asked = "";
    this.tried = false;
    this.timer = 0;
    this.all = false;
    this.table = new Table(columnsOf("running", []), { caption: "Trials that are running", primary: "age", key: (row) => `${row.agent_model}\n${row.task}\n${row.attempt}\n${row.tier}\n${row.subtest}` });
    this.more = h("button", { type: "button", class: "plain", onclick: () => this.unfold() });
    this.element = card("Running trials", [], this.table.element, h("p", { class: "body" }, this.more));
    this.element.hidden = true;
  }

  // digest: of the run's summary; the same digest says the same
  want(digest) {
    this.wanted = digest;
    if (this.wanted !== this.asked && !this.timer) this.timer = setTimeout(() => this.load(), this.tried ? REST_MS : 0);
  }

  async load() {
    this.asked = this.wanted;
    try {
      const { budget } = this;
      const found = document.hidden ? null : await this.answer(budget);
      if (budget !== this.budget) return; // the change of the budget asks again
      if (found) this.found = found;
      else this.asked = ""; // nobody looks: asked for once somebody does
    } catch (error) {
      // The stream of updates says what is wrong; the last outlook stays.
      if (passes(error)) this.asked = "";
    }
    this.tried = true;
    this.timer = 0;
    if (this.closed) return;
    this.draw();
    this.changed();
    this.want(this.wanted);
    clearTimeout(this.older); // a running trial grows older without an event
    if (this.found?.in_flight) this.older = setTimeout(() => this.timer || this.load(), AGE_MS);
  }

  // A budget that the server refuses takes nothing else away.
  async answer(budget) {
    try {
      const found = await get(runPath(this.run, "/outlook"), { budget });
      if (budget === this.budget) this.refused = null;
      return found;
    } catch (error) {
      if (!budget || error.status !== 400) throw error;
      const found = await get(runPath(this.run, "/outlook"));
      if (budget === this.budget) this.refused = visible(error.message);
      return found;
    }
  }

  setBudget(budget) {
    this.budget = budget;
    this.asked = "";
    clearTimeout(this.timer);
    this.load();
  }

  unfold() {
    this.all = !this.all;
    this.draw();
  }

  draw() {
    if (!this.found) return;
    const { running, in_flight: total } = this.found;
    this.element.hidden = total === 0;
    const rows = this.all ? running : running.slice(0, SHOWN);
    if (total) {
      this.table.setColumns(columnsOf("running", rows));
      this.table.update(rows);
    }
    this.more.textContent = this.all ? "Show fewer" : `Show all ${count(running.length)}`;
    this.more.parentElement.hidden = running.length <= SHOWN;
  }

  close() {
    this.closed = true;
    clearTimeout(this.older);
    clearTimeout(this.timer);
  }
}

// "forecast: ends about 03:40 UTC, 03:10 to 04:30"; null: not known, or nothing is awaited.
export function endWords(outlook) {
  const left = outlook?.seconds_left ?? null;
  if (!left || !outlook.at || left.high === 0) return null;
  const ends = ["low", "likely", "high"].map((end) => new Date(new Date(outlook.at).getTime() + 1000 * left[end]));
  const far = ends[2] - new Date(outlook.at) >= 86_400_000;
  const [low, likely, high] = ends.map((end) => clock(end, far));
  return `forecast: ends about ${likely} UTC, ${low} to ${high}`;
}

export function costWords(outlook) {
  const total = outlook?.total_usd ?? null;
  if (!total || total.high === total.low) return null;
  return `forecast: about ${usdRough(total.likely)} in all, ${usdRough(total.low)} to ${usdRough(total.high)}`;
}

// "forecast: the budget of $40.00 is passed about 03:10 UTC"; null: no budget.
export function budgetWords(outlook) {
  const budget = outlook?.budget ?? null;
  if (!budget) return null;
  const end = new Date(new Date(outlook.at).getTime() + 1000 * budget.seconds_until);
  const about = budget.seconds_until === null || !outlook.at ? "" : ` about ${clock(end, 1000 * budget.seconds_until >= 86_400_000)} UTC`;
  return WORDS.budget[budget.standing].replace("{usd}", usdRough(budget.usd)).replace("{about}", about);
}
