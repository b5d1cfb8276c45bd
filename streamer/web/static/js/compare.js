// Two runs, or two agents, on the tasks that both have done.

import { drawn, get, runPath } from "./api.js";
import { card, h, made, offer, Pager, select } from "./shared.js";
import { Asking } from "./trouble.js";

const PAGE = 50;
const MOST_RUNS = 500;
// So many parts of a comparison are about the single tasks: a heading and a table.
const TASK_BY_TASK = 2;
const WHOLE = ["", "all but baselines"];

export class Compare {
  // chosen: {a, b, a_agent, b_agent}; change(chosen): so that the address can follow
  constructor(chosen, change) {
    this.chosen = { a: "", b: "", a_agent: "", b_agent: "", allow: "", ...chosen };
    this.change = change;
    this.offset = 0;
    this.offered = {}; // side -> the run whose agents are offered
    this.able = []; // agents of the run that was offered last, without baselines
    this.choices = {};
    for (const side of ["a", "b"]) {
      const title = side.toUpperCase();
      this.choices[side] = select(`Run ${title}`, [], "", (value) => this.set({ [side]: value, [`${side}_agent`]: "", allow: "" }));
      this.choices[`${side}_agent`] = select(`Agent of ${title}`, [WHOLE], "", (value) => this.set({ [`${side}_agent`]: value, allow: "" }));
    }
    this.result = h("div", { "aria-live": "polite" });
    this.earlier = h("p", { class: "note body", hidden: true }, `These are the latest ${MOST_RUNS} runs. For an earlier one, put its id in the address: #/compare?a=RUN&b=RUN.`);
    this.pager = new Pager(PAGE, (offset) => this.set({}, offset));
    const controls = (side) => h("div", { class: "controls" }, this.choices[side].element, this.choices[`${side}_agent`].element);
    this.element = card("Compare on the tasks that both ran", [], h("div", { class: "body controls" }, controls("a"), controls("b")), this.earlier, this.result);
    this.asking = new Asking(this.element, (signal) => this.load(signal), () => this.result.replaceChildren());
    this.asking.ask();
  }

  async load(signal) {
    if (!this.runs) await this.offerRuns(signal);
    const moved = ["a", "b"].filter((side) => this.chosen[side] && this.chosen[side] !== this.offered[side]);
    for (const side of moved) await this.offerAgents(side, signal);
    if (moved.length) this.spread();
    if (!this.chosen.a) return this.result.replaceChildren(h("p", { class: "empty" }, "There are no runs yet."));
    const found = await drawn("/api/compare", { ...this.chosen, allow: this.chosen.allow.split(","), offset: this.offset, limit: PAGE }, signal);
    return this.result.replaceChildren(...this.shown(found));
  }

  async offerRuns(signal) {
    this.runs = await get("/api/runs", { limit: MOST_RUNS }, signal);
    const options = this.runs.map((run) => [run.run_id, run.display_name ?? run.run_id]);
    this.earlier.hidden = this.runs.length < MOST_RUNS;
    for (const side of ["a", "b"]) {
      const run = (this.chosen[side] ||= this.runs[0]?.run_id ?? "");
      if (run && !options.some(([known]) => known === run)) options.push([run, run]);
      offer(this.choices[side].select, options, this.chosen[side]);
    }
  }

  // No agent chosen: the two best of the run are a better beginning than a run against itself.
  spread() {
    const { a, b, a_agent, b_agent } = this.chosen;
    if (a !== b || a_agent || b_agent || this.able.length < 2) return;
    [this.chosen.a_agent, this.chosen.b_agent] = this.able; // of equal ones the first by name
    for (const side of ["a", "b"]) this.choices[`${side}_agent`].select.value = this.chosen[`${side}_agent`];
  }

  async offerAgents(side, signal) {
    const run = this.chosen[side];
    const agents = await get(runPath(run, "/agents"), {}, signal);
    const rate = (agent) => agent.statistics.pass_rate?.mean ?? -1;
    this.able = agents.filter((agent) => !agent.baseline).sort((a, b) => rate(b) - rate(a)).map((agent) => agent.agent_model);
    const labels = agents.map((agent) => [agent.agent_model, agent.agent_model]);
    offer(this.choices[`${side}_agent`].select, [WHOLE, ...labels], this.chosen[`${side}_agent`]);
    this.offered[side] = run;
  }

  set(change, offset = 0) {
    Object.assign(this.chosen, change);
    this.offset = offset;
    this.change(this.chosen);
    return this.asking.ask();
  }

  close = () => this.asking.close();

  shown({ parts, tasks, shown, refused }) {
    const [above, below] = [parts.slice(0, -TASK_BY_TASK), parts.slice(-TASK_BY_TASK)].map((some) => some.map((part) => made(part)));
    if (!tasks) return below;
    this.pager.show(this.offset, shown, tasks, tasks, ", greatest difference first");
    const allow = [this.chosen.allow, ...refused].filter(Boolean).join(",");
    const judge = refused.length ? [h("div", { class: "body" }, h("button", { type: "button", class: "plain", onclick: () => this.set({ allow }) }, "Judge them anyway"))] : [];
    return [...above, ...judge, ...below, this.pager.element];
  }
}
