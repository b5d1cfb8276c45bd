// Two runs, or two agents, on the tasks that both have done.

import { drawn, get, runPath } from "./api.js";
import { card, h, made, offer, Pager, select, visible } from "./shared.js";

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
    this.able = []; // agents of the run that was offered last, without baselines
    this.choices = {};
    for (const side of ["a", "b"]) {
      const title = side.toUpperCase();
      this.choices[side] = select(`Run ${title}`, [], "", (value) => this.set({ [side]: value, [`${side}_agent`]: "", allow: "" }));
      this.choices[`${side}_agent`] = select(`Agent of ${title}`, [WHOLE], "", (value) => this.set({ [`${side}_agent`]: value, allow: "" }));
    }
    this.result = h("div", { "aria-live": "polite" });
    this.earlier = h("p", { class: "note body", hidden: true }, `The latest ${MOST_RUNS} runs are offered. For an earlier one, write its id into the address: #/compare?a=RUN&b=RUN.`);
    this.pager = new Pager(PAGE, (offset) => {
      this.offset = offset;
      this.ask().catch((error) => this.fail(error));
    });
    const controls = (side) => h("div", { class: "controls" }, this.choices[side].element, this.choices[`${side}_agent`].element);
    this.element = card("Compare on the tasks that both have done", [], h("div", { class: "body controls" }, controls("a"), controls("b")), this.earlier, this.result);
    this.start();
  }

  async start() {
    try {
      const runs = await get("/api/runs", { limit: MOST_RUNS });
      const options = runs.map((run) => [run.run_id, run.display_name ?? run.run_id]);
      this.earlier.hidden = runs.length < MOST_RUNS;
      for (const side of ["a", "b"]) {
        const run = (this.chosen[side] ||= runs[0]?.run_id ?? "");
        if (run && !options.some(([known]) => known === run)) options.push([run, run]);
        offer(this.choices[side].select, options, this.chosen[side]);
        await this.offerAgents(side);
      }
      this.spread();
      await this.ask();
    } catch (error) {
      this.fail(error);
    }
  }

  // No agent chosen: the two best of the run are a better beginning than a run against itself.
  spread() {
    const { a, b, a_agent, b_agent } = this.chosen;
    if (a !== b || a_agent || b_agent) return;
    if (this.able.length < 2) return;
    [this.chosen.a_agent, this.chosen.b_agent] = this.able; // of equal ones the first by name
    for (const side of ["a", "b"]) this.choices[`${side}_agent`].select.value = this.chosen[`${side}_agent`];
  }

  async offerAgents(side) {
    const run = this.chosen[side];
    if (!run) return;
    const agents = await get(runPath(run, "/agents"));
    if (this.chosen[side] !== run) return; // another one was chosen meanwhile
    const labels = agents.map((agent) => [agent.agent_model, agent.agent_model]);
    const rate = (agent) => agent.statistics.pass_rate?.mean ?? -1;
    this.able = agents.filter((agent) => !agent.baseline).sort((a, b) => rate(b) - rate(a)).map((agent) => agent.agent_model);
    offer(this.choices[`${side}_agent`].select, [WHOLE, ...labels], this.chosen[`${side}_agent`]);
  }

  async set(change) {
    Object.assign(this.chosen, change);
    this.offset = 0;
    this.change(this.chosen);
    try {
      if ("a" in change) await this.offerAgents("a");
      if ("b" in change) await this.offerAgents("b");
      if ("a" in change || "b" in change) this.spread();
      await this.ask();
    } catch (error) {
      this.fail(error);
    }
  }

  async ask() {
    if (!this.chosen.a) return this.result.replaceChildren(h("p", { class: "empty" }, "There are no runs yet."));
    this.pending?.abort();
    this.pending = new AbortController();
    const found = await drawn("/api/compare", { ...this.chosen, allow: this.chosen.allow.split(","), offset: this.offset, limit: PAGE }, this.pending.signal);
    return this.result.replaceChildren(...this.shown(found));
  }

  close() {
    this.pending?.abort();
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.result.replaceChildren(h("div", { class: "body" }, h("p", { class: "error", role: "alert" }, visible(error.message))));
  }

  shown({ parts, tasks, shown, refused }) {
    const [above, below] = [parts.slice(0, -TASK_BY_TASK), parts.slice(-TASK_BY_TASK)].map((some) => some.map((part) => made(part)));
    if (!tasks) return below;
    this.pager.show(this.offset, shown, tasks, tasks, ", greatest difference first");
    const allow = [this.chosen.allow, ...refused].filter(Boolean).join(",");
    const judge = refused.length ? [h("div", { class: "body" }, h("button", { type: "button", class: "plain", onclick: () => this.set({ allow }) }, "Judge them all the same"))] : [];
    return [...above, ...judge, ...below, this.pager.element];
  }
}
