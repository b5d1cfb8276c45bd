// What can be shown of an agent:model or a tier in charts and on leaderboards: the numbers of the board of agents.

import { BOARDS } from "./boards.js";
import { WRITERS, found } from "./cells.js";
import { count, number } from "./format.js";

const ofColumn = ({ name, title, path, format, sort }) => [
  name,
  { title, value: (group) => found(group, path), write: WRITERS[format] ?? count, high: sort === "greatest", share: ["percent", "score"].includes(format) },
];

// name -> title, value in a summary, how it is written, whether more is better, whether it is from 0 to 1
export const METRICS = Object.fromEntries(BOARDS.agents.filter((column) => column.name === "trials" || column.metric).map(ofColumn));
export const LEADER_METRICS = Object.keys(METRICS).filter((name) => name !== "trials");

export const valueOf = (metric, group) => number(METRICS[metric].value(group));

// Those of which at least one group knows something.
export const known = (names, groups) => names.filter((name) => groups.some((group) => valueOf(name, group) !== null));

export const color = (index) => `var(--series-${((index % 8) + 8) % 8})`;
