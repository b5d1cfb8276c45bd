// Two runs, or two agents, on the tasks that both have done.

import { get, runPath } from "./api.js";
import { comparison, pairs } from "./compared.js";
import { card, h, visible } from "./dom.js";
import { Pager, offer, select } from "./controls.js";

const PAGE = 50;
const MOST_RUNS = 500;
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
      this.choices[`${side}_agent`] = select(`Agent of ${title}`, [WHOLE], "", (value) => this.set({ [`${side}_agent`]: value }));
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

  // No agent chosen: the first two of the run are a better beginning than a run against itself.
  spread() {
    const { a, b, a_agent, b_agent } = this.chosen;
    if (a !== b || a_agent || b_agent) return;
    if (this.able.length < 2) return;
    [this.chosen.a_agent, this.chosen.b_agent] = this.able;
    for (const side of ["a", "b"]) this.choices[`${side}_agent`].select.value = this.chosen[`${side}_agent`];
  }

  async offerAgents(side) {
    const run = this.chosen[side];
    if (!run) return;
    const agents = await get(runPath(run, "/agents"));
    if (this.chosen[side] !== run) return; // another one was chosen meanwhile
    const labels = agents.map((agent) => [agent.agent_model, agent.agent_model]);
    this.able = agents.filter((agent) => !agent.baseline).map((agent) => agent.agent_model);
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
    const found = await get("/api/compare", { ...this.chosen, allow: this.chosen.allow.split(","), offset: this.offset, limit: PAGE }, this.pending.signal);
    return this.result.replaceChildren(...this.shown(found));
  }

  close() {
    this.pending?.abort();
  }

  fail(error) {
    if (error.name === "AbortError") return;
    this.result.replaceChildren(h("div", { class: "body" }, h("p", { class: "error", role: "alert" }, visible(error.message))));
  }

  shown(found) {
    if (!found.tasks) return [h("p", { class: "empty" }, "They have no task in common.")];
    this.pager.show(this.offset, found.pairs.length, found.tasks, found.tasks, ", greatest difference first");
    const allow = [this.chosen.allow, ...found.refused].filter(Boolean).join(",");
    const judge = found.refused.length ? h("div", { class: "body" }, h("button", { type: "button", class: "plain", onclick: () => this.set({ allow }) }, "Judge them all the same")) : null;
    return [...comparison(found), judge, h("h3", { class: "part" }, "Task by task"), pairs(found).element, this.pager.element].filter(Boolean);
  }
}
