// What can be shown of an agent:model or a tier, and how.

import { count, duration, number, percent, ratio, share, times, usd } from "./format.js";

const statistic = (metric, which) => (group) => group.statistics?.[metric]?.[which] ?? null;
const formulacode = (field) => (group) => group.formulacode?.[field] ?? null;

// name -> title, value in a summary, how it is written, whether more is better, field of the history or null
export const METRICS = {
  pass_rate: { title: "Pass rate", value: statistic("pass_rate", "mean"), write: percent, high: true, history: "pass_rate", share: true },
  accuracy: { title: "Accuracy", value: (g) => g.accuracy, write: percent, high: true, history: "accuracy", share: true },
  composite_score: { title: "Composite", value: statistic("composite_score", "median"), write: share, high: true, history: "composite_score", share: true },
  impl_rate: { title: "Judge", value: statistic("impl_rate", "mean"), write: share, high: true, share: true },
  mean_speedup: { title: "Speedup", value: formulacode("mean_speedup"), write: times, high: true, history: "mean_speedup" },
  agent_advantage: { title: "Advantage", value: formulacode("agent_advantage"), write: ratio, high: true, history: "agent_advantage" },
  total_cost: { title: "Cost", value: (g) => g.total_cost, write: usd, high: false, history: "total_cost" },
  mean_cost: { title: "Cost per trial", value: (g) => g.mean_cost, write: usd, high: false },
  cost_of_pass: { title: "Cost of pass", value: (g) => g.cost_of_pass, write: usd, high: false, history: "cost_of_pass" },
  mean_duration: { title: "Duration", value: statistic("duration_seconds", "mean"), write: duration, high: false },
  trials: { title: "Trials", value: (g) => g.trials, write: count, high: true, history: "trials" },
};

export const valueOf = (metric, group) => number(METRICS[metric].value(group));

// Those of which at least one group knows something.
export const known = (names, groups) => names.filter((name) => groups.some((group) => valueOf(name, group) !== null));

export const color = (index) => `var(--series-${((index % 8) + 8) % 8})`;
