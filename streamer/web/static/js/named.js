// Metrics that harnesses name themselves, as streamer/views/columns.py makes columns of them.

import { NAMED } from "./boards.js";
import { UNKNOWN } from "./format.js";
import { visible } from "./dom.js";

// The column of a named metric. says: direction, unit and label, as summaries have them; null: not known.
export function namedColumn(name, says) {
  const label = visible(says?.label || name);
  const format = Object.hasOwn(NAMED.formats, says?.unit ?? "") ? NAMED.formats[says.unit] : NAMED.format;
  const sort = says?.direction === "lower" ? "least" : "greatest";
  return { name: NAMED.prefix + name, title: label, outside: true, format, path: ["metrics", name, "mean"], beside: [], sort, empty: UNKNOWN, hint: `Mean ${label}.`, left: false, metric: true };
}

// Name and what is said of it: planned ones first, then those with more trials.
function namesOf(groups) {
  const says = new Map();
  const counts = new Map();
  for (const group of groups) {
    for (const [name, statistics] of Object.entries(group.metrics ?? {})) {
      if (!says.has(name)) says.set(name, statistics);
      counts.set(name, (counts.get(name) ?? 0) + statistics.count);
    }
  }
  const first = ([a, saysA], [b, saysB]) => saysB.planned - saysA.planned || counts.get(b) - counts.get(a) || (a < b ? -1 : 1);
  return [...says].sort(first);
}

// Columns of all named metrics; of the planned ones alone.
export const namedColumns = (groups) => namesOf(groups).map(([name, says]) => namedColumn(name, says));
export const plannedColumns = (groups) => namesOf(groups).filter(([, says]) => says.planned).map(([name, says]) => namedColumn(name, says));

// The columns of a board with those of the groups' named metrics, behind the pass rate.
export const withNamed = (columns, groups) => placed(columns, NAMED.behind, namedColumns(groups));

// The columns of a board of trials with those of the named metrics that some trial of the groups has.
export function withValues(columns, groups) {
  const some = namedColumns(groups).filter((column) => groups.some((group) => group.metrics?.[nameIn(column.name)]?.count));
  const values = some.map((column) => ({ ...column, path: ["metrics", nameIn(column.name)], sort: null, hint: "" }));
  return placed(columns, NAMED.behind_of_trials, values);
}

function placed(columns, behind, named) {
  const at = 1 + columns.findLastIndex((column) => behind.includes(column.name));
  return [...columns.slice(0, at), ...named.slice(0, NAMED.most), ...columns.slice(at)];
}

// name within METRICS -> value, from what a summary, or a point of the history, says of named metrics.
export const prefixed = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [NAMED.prefix + name, value]));

export const isNamed = (metric) => metric.startsWith(NAMED.prefix);
export const nameIn = (metric) => metric.slice(NAMED.prefix.length);
