// Two runs, or two agents, on the tasks that both have done.

import { get, runPath } from "./api.js";
import { BOARDS } from "./boards.js";
import { WRITERS } from "./cells.js";
import { card, h, name } from "./dom.js";
import { offer, select } from "./controls.js";
import { count, number, percent, ratio, signed, usd } from "./format.js";
import { Table } from "./table.js";

const PAGE = 50;

export class Compare {
  // chosen: {a, b, a_agent, b_agent}; change(chosen): so that the address can follow
  constructor(chosen, change) {
    this.chosen = { a: "", b: "", a_agent: "", b_agent: "", ...chosen };
    this.change = change;
    this.offset = 0;
    this.choices = {};
    for (const side of ["a", "b"]) {
      const title = side === "a" ? "First" : "Second";
      this.choices[side] = select(`${title} run`, [], "", (value) => this.set({ [side]: value, [`${side}_agent`]: "" }));
      this.choices[`${side}_agent`] = select("Agent", [["", "all agents"]], "", (value) => this.set({ [`${side}_agent`]: value }));
    }
    this.result = h("div", { "aria-live": "polite" });
    const controls = (side) => h("div", { class: "controls" }, this.choices[side].element, this.choices[`${side}_agent`].element);
    this.element = card("Compare on the tasks that both have done", [], h("div", { class: "body controls" }, controls("a"), controls("b")), this.result);
    this.start();
  }

  async start() {
    try {
      const runs = await get("/api/runs");
      const options = runs.map((run) => [run.run_id, run.display_name ?? run.run_id]);
      for (const side of ["a", "b"]) {
        this.chosen[side] ||= runs[0]?.run_id ?? "";
        offer(this.choices[side].select, options, this.chosen[side]);
        await this.offerAgents(side);
      }
      this.spread();
      await this.ask();
    } catch (error) {
      this.fail(error);
    }
  }

  // Nothing chosen: the first two agents of the run are a better beginning than a run against itself.
  spread() {
    const { a, b, a_agent, b_agent } = this.chosen;
    if (a !== b || a_agent || b_agent) return;
    const labels = [...this.choices.a_agent.select.options].map((option) => option.value).filter(Boolean);
    if (labels.length < 2) return;
    [this.chosen.a_agent, this.chosen.b_agent] = labels;
    for (const side of ["a", "b"]) this.choices[`${side}_agent`].select.value = this.chosen[`${side}_agent`];
  }

  async offerAgents(side) {
    if (!this.chosen[side]) return;
    const agents = await get(runPath(this.chosen[side], "/agents"));
    const labels = agents.map((agent) => [agent.agent_model, agent.agent_model]);
    offer(this.choices[`${side}_agent`].select, [["", "all but baselines"], ...labels], this.chosen[`${side}_agent`]);
  }

  async set(change) {
    Object.assign(this.chosen, change);
    this.offset = 0;
    this.change(this.chosen);
    try {
      if ("a" in change) await this.offerAgents("a");
      if ("b" in change) await this.offerAgents("b");
      await this.ask();
    } catch (error) {
      this.fail(error);
    }
  }

  async ask() {
    if (!this.chosen.a) return this.result.replaceChildren(h("p", { class: "empty" }, "There are no runs yet."));
    const found = await get("/api/compare", { ...this.chosen, offset: this.offset, limit: PAGE });
    return this.result.replaceChildren(...this.shown(found));
  }

  fail(error) {
    this.result.replaceChildren(h("div", { class: "body" }, h("p", { class: "error", role: "alert" }, error.message)));
  }

  shown(found) {
    if (!found.tasks) return [h("p", { class: "empty" }, "They have no task in common.")];
    const verdict = `${count(found.tasks)} tasks in common: the first is better on ${count(found.a_better)}, the second on ${count(found.b_better)}, equal on ${count(found.equal)}. Not in common: ${count(found.a.only_here)} of the first, ${count(found.b.only_here)} of the second.`;
    const passes = `Passed by both ${count(found.both_passed)}, by the first alone ${count(found.only_a)}, by the second alone ${count(found.only_b)}, by neither ${count(found.neither)}.`;
    return [h("p", { class: "body note" }, verdict, " ", passes), totals(found).element, this.pairs(found).element, this.pager(found)];
  }

  pairs(found) {
    const side = (which, title) => ({ id: which, title, number: true, high: true, value: (p) => p[which].pass_rate, cell: (p) => `${percent(p[which].pass_rate)} of ${count(p[which].trials)}` });
    const cost = (which, title) => ({ id: `${which}_cost`, title, number: true, value: (p) => number(p[which].cost_usd), cell: (p) => usd(p[which].cost_usd) });
    const table = new Table(
      [
        { id: "task", title: "Task", value: (p) => p.task_id, cell: (p) => name(p.task_id) },
        { id: "tier", title: "Tier", value: (p) => p.tier, cell: (p) => (p.tier === null ? "–" : name(p.tier)) },
        side("a", "First"),
        side("b", "Second"),
        { id: "difference", title: "Difference", number: true, high: true, value: (p) => p.b.pass_rate - p.a.pass_rate, cell: (p) => difference(p.a.pass_rate, p.b.pass_rate, percent, true) },
        cost("a", "Cost, first"),
        cost("b", "Cost, second"),
      ],
      { caption: "Tasks that both have done", key: (p) => `${p.task_id}\n${p.tier}` },
    );
    table.update(found.pairs);
    return table;
  }

  pager(found) {
    const go = (offset) => () => {
      this.offset = offset;
      this.ask().catch((error) => this.fail(error));
    };
    const last = this.offset + found.pairs.length;
    return h(
      "div",
      { class: "pager" },
      h("p", { class: "note" }, `${count(this.offset + 1)}–${count(last)} of ${count(found.tasks)}, greatest difference first`),
      h("button", { type: "button", class: "plain", disabled: this.offset === 0, onclick: go(Math.max(0, this.offset - PAGE)) }, "Previous"),
      h("button", { type: "button", class: "plain", disabled: last >= found.tasks, onclick: go(this.offset + PAGE) }, "Next"),
    );
  }
}

function totals(found) {
  const title = (side) => (side.agent_model === null ? [name(side.run)] : [name(side.agent_model)]);
  const of = (column) => found.differences[column.name];
  const write = (column) => WRITERS[column.format];
  const table = new Table(
    [
      { id: "what", title: "Mean over tasks", cell: (column) => column.title },
      { id: "a", title: "First", number: true, cell: (column) => write(column)(found.a[column.name]) },
      { id: "b", title: "Second", number: true, cell: (column) => write(column)(found.b[column.name]) },
      { id: "difference", title: "Second − first", number: true, cell: (column) => moved(of(column).mean, write(column), of(column).higher_is_better) },
      { id: "tasks", title: "Tasks", hint: "Tasks where both know it", number: true, cell: (column) => count(of(column).tasks) },
      { id: "p", title: "p", hint: "Two-sided exact sign test over the tasks that differ", number: true, cell: (column) => chance(of(column).p_value) },
    ],
    { caption: "Totals", key: (column) => column.name },
  );
  table.head.children[1].replaceChildren(...title(found.a));
  table.head.children[2].replaceChildren(...title(found.b));
  table.update(BOARDS.compared.filter((column) => of(column).tasks > 0));
  return table;
}

function difference(a, b, write, high) {
  return a === null || b === null ? "–" : moved(b - a, write, high);
}

function moved(by, write, high) {
  if (by === null) return "–";
  const mood = by === 0 ? null : by > 0 === high ? "better" : "worse";
  return h("span", { class: mood }, signed(by, write));
}

const chance = (p) => (p < 0.001 ? "< 0.001" : ratio(p));
