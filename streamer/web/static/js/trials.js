// The trials of a run, a page at a time; the server filters and sorts.

import { get, runPath } from "./api.js";
import { WORDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { card, field, h, name } from "./dom.js";
import { offer, select } from "./controls.js";
import { count } from "./format.js";
import { Table } from "./table.js";

const PAGE = 50;
const REFRESH_MS = 3000;

export class Trials {
  constructor(run, open) {
    this.run = run;
    this.open = open;
    this.query = { offset: 0, limit: PAGE, sort: "latest", descending: false };
    this.table = new Table(this.columns([]), {
      caption: "Trials of this run",
      primary: "outcome",
      key: (trial) => trial.id,
      onsort: (sort, descending) => this.ask({ sort, descending, offset: 0 }),
      empty: "No trial fits.",
    });
    this.status = h("p", { class: "note", role: "status" }, "Loading…");
    this.back = h("button", { type: "button", class: "plain", onclick: () => this.ask({ offset: Math.max(0, this.query.offset - PAGE) }) }, "Previous");
    this.next = h("button", { type: "button", class: "plain", onclick: () => this.ask({ offset: this.query.offset + PAGE }) }, "Next");
    this.agent = h("select", { onchange: () => this.ask({ agent: this.agent.value, offset: 0 }) });
    this.tier = h("select", { onchange: () => this.ask({ tier: this.tier.value, offset: 0 }) });
    this.tierField = field("Tier", this.tier);
    const search = h("input", { type: "search", placeholder: "task, agent, failure", oninput: () => this.later(search.value) });
    const outcomes = [["", "all"], ...Object.entries(WORDS.outcomes)];
    const result = select("Outcome", outcomes, "", (value) => this.ask({ outcome: value, offset: 0 }));
    const controls = h("div", { class: "controls" }, field("Search", search), result.element, field("Agent", this.agent), this.tierField);
    this.element = card("Trials", [controls], this.table.element, h("div", { class: "pager" }, this.status, this.back, this.next));
    this.ask({});
  }

  columns(trials) {
    const task = (trial) => h("button", { type: "button", class: "link", "aria-haspopup": "dialog", onclick: () => this.open(trial.id) }, name(trial.shard ? `${trial.shard}: ${trial.task_id}` : trial.task_id));
    return columnsOf("trials", trials, { task });
  }

  later(search) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.ask({ search, offset: 0 }), 250);
  }

  // The state of the run moved: look again, but not all the time.
  update(agents, tiers) {
    const labels = agents.map((agent) => [agent.agent_model, agent.agent_model]);
    offer(this.agent, [["", "all"], ...labels], this.agent.value);
    const names = [...new Set(tiers.map((tier) => tier.tier))];
    offer(this.tier, [["", "all"], ...names.map((tier) => [tier, tier])], this.tier.value);
    this.tierField.hidden = names.length === 0;
    if (this.refreshing || document.hidden) return;
    this.refreshing = setTimeout(() => {
      this.refreshing = 0;
      this.ask({});
    }, REFRESH_MS);
  }

  async ask(change) {
    Object.assign(this.query, change);
    this.pending?.abort();
    this.pending = new AbortController();
    try {
      this.show(await get(runPath(this.run, "/trials"), this.query, this.pending.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.status.textContent = error.message;
    }
  }

  show(page) {
    this.table.setColumns(this.columns(page.trials));
    this.table.update(page.trials);
    const last = page.offset + page.trials.length;
    const of = page.matching === page.total ? count(page.total) : `${count(page.matching)} that fit, of ${count(page.total)}`;
    this.status.textContent = page.matching ? `${count(page.offset + 1)}–${count(last)} of ${of}` : `None of ${count(page.total)} fits`;
    this.back.disabled = page.offset === 0;
    this.next.disabled = last >= page.matching;
  }

  close() {
    clearTimeout(this.refreshing);
    clearTimeout(this.typing);
    this.pending?.abort();
  }
}
