// The trials of a run, a page at a time; the server filters and sorts.

import { get, runPath } from "./api.js";
import { card, field, h, name } from "./dom.js";
import { offer, select } from "./controls.js";
import { count, duration, grade, number, ratio, share, times, usd } from "./format.js";
import { Table } from "./table.js";

const PAGE = 50;
const REFRESH_MS = 3000;
export const OUTCOMES = { passed: ["passed", "good"], failed: ["failed", "bad"], fell_back: ["fell back", "warn"], no_verdict: ["no verdict", ""] };

export const outcome = (word) => h("span", { class: `badge ${OUTCOMES[word]?.[1] ?? ""}` }, OUTCOMES[word]?.[0] ?? word);

export class Trials {
  constructor(run, open) {
    this.run = run;
    this.open = open;
    this.query = { offset: 0, limit: PAGE, sort: "latest", descending: false };
    this.table = new Table(this.columns(false, false), {
      caption: "Trials of this run",
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
    const outcomes = [["", "all"], ...Object.entries(OUTCOMES).map(([word, [title]]) => [word, title])];
    const result = select("Outcome", outcomes, "", (value) => this.ask({ outcome: value, offset: 0 }));
    const controls = h("div", { class: "controls" }, field("Search", search), result.element, field("Agent", this.agent), this.tierField);
    this.element = card("Trials", [controls], this.table.element, h("div", { class: "pager" }, this.status, this.back, this.next));
    this.ask({});
  }

  columns(speed, judged) {
    return [
      { id: "task", title: "Task", value: (t) => t.task_id, cell: (t) => h("button", { type: "button", class: "link", "aria-haspopup": "dialog", onclick: () => this.open(t.id) }, name(t.task_id)) },
      { id: "outcome", title: "Outcome", value: (t) => t.outcome, cell: (t) => outcome(t.outcome) },
      { id: "agent", title: "Agent : model", value: (t) => t.agent_model, cell: (t) => name(t.agent_model) },
      { id: "tier", title: "Tier", value: (t) => t.tier, cell: (t) => (t.tier === null ? "–" : name(t.subtest === null ? t.tier : `${t.tier} / ${t.subtest}`)) },
      { id: "attempt", title: "Attempt", number: true, cell: (t) => count(t.attempt) },
      ...(judged ? [{ id: "composite_score", title: "Composite", number: true, high: true, value: (t) => number(t.composite_score), cell: (t) => share(t.composite_score) }, { id: "grade", title: "Grade", cell: (t) => grade(t.grade) }] : []),
      ...(speed ? [{ id: "speedup", title: "Speedup", number: true, cell: (t) => times(t.task_speedup) }, { id: "advantage", title: "Advantage", number: true, cell: (t) => ratio(t.agent_advantage) }] : []),
      { id: "cost_usd", title: "Cost", number: true, high: true, value: (t) => number(t.cost_usd), cell: (t) => usd(t.cost_usd) },
      { id: "duration_seconds", title: "Duration", number: true, high: true, value: (t) => number(t.duration_seconds), cell: (t) => duration(t.duration_seconds) },
      { id: "failure", title: "Failure", cell: (t) => (t.failure_mode === null || t.failure_mode === "unset" ? "–" : name(t.failure_mode)) },
    ];
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
    this.table.setColumns(this.columns(page.trials.some((trial) => trial.task_speedup !== null), page.trials.some((trial) => trial.composite_score !== null)));
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
