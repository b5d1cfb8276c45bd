// The two charts of a run, side by side, with what can be chosen of them. Also drawn by reports.

import { segments, select } from "./controls.js";
import { card, h } from "./dom.js";
import { Frontier } from "./frontier.js";
import { METRICS, known, namedMetrics, plannedMetrics } from "./metrics.js";
import { TimeChart } from "./timechart.js";

const LINES = ["pass_rate", "composite_score", "accuracy", "mean_speedup", "agent_advantage", "cost_of_pass", "total_cost", "trials"];
// Not every run has these; of tiers, none has FormulaCode's.
const SOMETIMES = ["composite_score", "mean_speedup", "agent_advantage"];
const QUALITIES = ["pass_rate", "composite_score", "accuracy", "mean_speedup", "agent_advantage"];
const COSTS = ["mean_cost", "cost_of_pass", "total_cost"];

const pick = (names) => names.map((name) => METRICS[name]);
const titled = (metrics) => metrics.map((metric) => [metric.name, metric.title]);

export class Charts {
  constructor(run) {
    this.run = run;
    this.agents = [];
    this.tiers = [];
    this.metrics = METRICS;
    this.colors = new Map();
    this.choice = { kind: "agent_model", line: "pass_rate", quality: "pass_rate", cost: "mean_cost" };
    this.chart = new TimeChart(run, (key, kind = "agent_model") => (kind === "tier" ? this.tierIndex(key) : this.indexOf(key)));
    this.frontier = new Frontier();
    this.line = select("Metric", titled(this.lines()), this.choice.line, this.again("line"));
    this.kinds = segments("Lines", [["agent_model", "Agents"], ["tier", "Tiers"]], "agent_model", this.again("kind"));
    this.quality = select("Quality", [], "", this.again("quality"));
    this.cost = select("Cost", titled(pick(COSTS)), this.choice.cost, this.again("cost"));
    this.element = h(
      "div",
      { class: "two" },
      card("Over event time", [this.line.element, this.kinds], h("div", { class: "body" }, this.chart.element)),
      card("Cost against quality", [this.quality.element, this.cost.element], h("div", { class: "body" }, this.frontier.element, h("p", { class: "note" }, "Dashed: the Pareto frontier; nobody is cheaper and at least as good."))),
    );
  }

  again(what) {
    return (value) => {
      this.choice[what] = value;
      this.draw();
    };
  }

  update(agents, tiers) {
    [this.agents, this.tiers] = [agents, tiers];
    for (const label of agents.map((agent) => agent.agent_model).sort()) this.indexOf(label);
    this.kinds.hidden = tiers.length === 0;
    this.metrics = { ...METRICS, ...namedMetrics([...agents, ...tiers]) };
    this.quality.offer(titled(known([...pick(QUALITIES), ...Object.values(namedMetrics(agents))], agents)));
    if (this.quality.select.value) this.choice.quality = this.quality.select.value;
    this.draw();
  }

  draw() {
    const { kind, cost, quality } = this.choice;
    this.line.offer(titled(this.lines()));
    this.choice.line = this.line.select.value;
    this.chart.show(kind, this.metrics[this.choice.line]);
    this.frontier.update(this.agents, (label) => this.indexOf(label), METRICS[cost], this.metrics[quality]);
  }

  // Metrics that at least one line has; of named ones the history keeps those that the plan names.
  lines() {
    const groups = this.choice.kind === "tier" ? this.tiers : this.agents;
    const offered = known([...pick(SOMETIMES), ...Object.values(plannedMetrics(groups))], groups);
    return [...pick(LINES).filter((metric) => !SOMETIMES.includes(metric.name) || offered.includes(metric)), ...offered.filter((metric) => !SOMETIMES.includes(metric.name))];
  }

  // A colour once given stays.
  indexOf(label) {
    if (!this.colors.has(label)) this.colors.set(label, this.colors.size);
    return this.colors.get(label);
  }

  tierIndex(tier) {
    return [...new Set(this.tiers.map((one) => one.tier))].sort().indexOf(tier);
  }

  close() {
    this.chart.close();
  }
}
