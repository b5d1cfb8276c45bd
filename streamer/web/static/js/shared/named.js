// Metrics that harnesses name themselves, as streamer/views/columns.py makes columns of them.

// The column of a named metric. says: direction, unit and label, as summaries have them; null: not known.
function namedColumn(name, says) {
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

// name within METRICS -> value, from what a summary, or a point of the history, says of named metrics.
export const prefixed = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [NAMED.prefix + name, value]));
