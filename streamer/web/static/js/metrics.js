// What can be shown of an agent:model or a tier in charts and on leaderboards: the numbers of the board of agents.

import { BOARDS } from "./boards.js";
import { WRITERS, found } from "./cells.js";
import { count, number } from "./format.js";
import { namedColumns, plannedColumns } from "./named.js";

const ofColumn = ({ name, title, path, format, sort }) => [
  name,
  { name, title, value: (group) => found(group, path), write: WRITERS[format] ?? count, high: sort === "greatest", share: ["pass_rate", "percent", "score"].includes(format) },
];

const metricsIn = (columns) => Object.fromEntries(columns.map(ofColumn));

// name -> name, title, value in a summary, how it is written, whether more is better, whether it is from 0 to 1
export const METRICS = metricsIn(BOARDS.agents.filter((column) => column.name === "trials" || column.metric));
export const LEADER_METRICS = Object.keys(METRICS).filter((name) => name !== "trials");

// The same of the named metrics of these groups: of all, and of those that the plan names.
export const namedMetrics = (groups) => metricsIn(namedColumns(groups));
export const plannedMetrics = (groups) => metricsIn(plannedColumns(groups));

export const valueOf = (metric, group) => number(metric.value(group));

// Those of which at least one group knows something.
export const known = (metrics, groups) => metrics.filter((metric) => groups.some((group) => valueOf(metric, group) !== null));

// -1: grey
export const color = (index) => (index < 0 ? "var(--series-none)" : `var(--series-${index % 8})`);
