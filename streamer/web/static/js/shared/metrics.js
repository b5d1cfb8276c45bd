// How charts write their numbers, and the colours of their lines.

const WRITERS = { pass_rate: percent, count, dollars: usd, number: ratio, percent, ratio, score: share, span: duration, times };

// metric: {name, title, format, share}: share: it is from 0 to 1
export const writes = (metric) => WRITERS[metric.format] ?? count;

// -1: grey
export const color = (index) => (index < 0 ? "var(--series-none)" : `var(--series-${index % 8})`);
