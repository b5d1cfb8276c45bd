// What can be shown of an agent:model or a tier in charts: the numbers of the board of agents.

const WRITERS = { pass_rate: percent, count, dollars: usd, number: ratio, percent, ratio, score: share, span: duration, times };

// Names of metrics come from outside: `constructor` is none unless the row has it itself.
const found = (row, path) => path.reduce((value, step) => (Object.hasOwn(value ?? {}, step) ? value[step] : null), row);

const ofColumn = ({ name, title, path, format, sort }) => [
  name,
  { name, title, value: (group) => found(group, path), write: WRITERS[format] ?? count, high: sort === "greatest", share: ["pass_rate", "percent", "score"].includes(format) },
];

const metricsIn = (columns) => Object.fromEntries(columns.map(ofColumn));

// name -> name, title, value in a summary, how it is written, whether more is better, whether it is from 0 to 1
export const METRICS = metricsIn(BOARDS.agents.filter((column) => column.name === "trials" || column.metric));

// The same of the named metrics of these groups: of all, and of those that the plan names.
export const namedMetrics = (groups) => metricsIn(namedColumns(groups));
export const plannedMetrics = (groups) => metricsIn(plannedColumns(groups));

export const valueOf = (metric, group) => number(metric.value(group));

// Those of which at least one group knows something.
export const known = (metrics, groups) => metrics.filter((metric) => groups.some((group) => valueOf(metric, group) !== null));

// -1: grey
export const color = (index) => (index < 0 ? "var(--series-none)" : `var(--series-${index % 8})`);
