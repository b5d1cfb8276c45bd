// The board: every agent:model of a run, sortable.

import { h, name } from "./dom.js";
import { GRADE_MARKS, accuracy, basis, count, groupGrade, meter } from "./format.js";
import { METRICS, color, known, valueOf } from "./metrics.js";
import { Table } from "./table.js";

const ORDER = ["pass_rate", "composite_score", "impl_rate", "mean_speedup", "agent_advantage", "accuracy", "total_cost", "mean_cost", "cost_of_pass", "mean_duration"];
const GRADES = "SABCDF";
const METERS = ["pass_rate", "composite_score"];

export class Board {
  constructor() {
    this.table = new Table([who(() => 0)], {
      caption: "Agents of this run",
      key: (agent) => agent.agent_model,
      sort: { id: "pass_rate", descending: true },
      rowClass: (agent) => (agent.baseline ? "baseline" : ""),
      empty: "No trial has been counted yet.",
    });
    this.element = this.table.element;
  }

  update(agents, indexOf) {
    const metrics = known(ORDER, agents).map((id) => metricColumn(id));
    this.table.setColumns([who(indexOf), graded, restsOn, trials, ...metrics]);
    this.table.update(agents);
  }
}

const who = (indexOf) => ({
  id: "agent",
  title: "Agent : model",
  value: (agent) => agent.agent_model,
  cell: (agent) => {
    const swatch = h("span", { class: "swatch", "--color": color(indexOf(agent.agent_model)), "aria-hidden": "true" });
    const baseline = agent.baseline ? h("span", { class: "badge" }, "baseline") : null;
    return h("span", { class: "who" }, swatch, name(agent.agent_model), baseline);
  },
});

const graded = {
  id: "grade",
  title: "Grade",
  hint: `By the composite where there is a judge, else by the pass rate; ${GRADE_MARKS}`,
  value: (agent) => (agent.grade ? GRADES.indexOf(agent.grade) : null),
  cell: groupGrade,
};

export const restsOn = { id: "basis", title: "Rests on", hint: "What the grade rests on", value: basis, cell: basis };

const trials = {
  id: "trials",
  title: "Trials",
  number: true,
  high: true,
  value: (agent) => agent.trials,
  cell: (agent) => (agent.runs_planned === null ? count(agent.trials) : `${count(agent.trials)} / ${count(agent.runs_planned)}`),
};

export function metricColumn(id) {
  const metric = METRICS[id];
  if (id === "accuracy") return { id, title: metric.title, number: true, high: true, value: (group) => valueOf(id, group), cell: accuracy };
  const cell = (group) => (metric.share && METERS.includes(id) ? meter(metric.value(group), metric.write) : metric.write(metric.value(group)));
  return { id, title: metric.title, number: true, high: metric.high, value: (group) => valueOf(id, group), cell };
}
