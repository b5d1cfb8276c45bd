// The boards as streamer/views/columns.py declares them: the columns of a table, and each format as a cell.

import { BOARDS, WORDS } from "./boards.js";
import { h, name, visible } from "./dom.js";
import { UNKNOWN, ago, count, duration, grade, meter, number, percent, ratio, share, signed, times, usd } from "./format.js";
import { groupGrade, interval, passRate } from "./uncertainty.js";

// Formats that need the value alone, as text.
export const WRITERS = { pass_rate: percent, count, dollars: usd, number: ratio, percent, ratio, score: share, span: duration, times };

const METERS = ["composite_score"];
const MOODS = { passed: "good", failed: "bad", fell_back: "warn" };

// The others: from the value, the second value and the row.
const CELLS = {
  age: ago,
  agent: (label, _, row) => (label === null ? UNKNOWN : [name(label), row.baseline ? h("span", { class: "badge" }, "baseline") : null]),
  basis: (basis, _, row) => (row.graded === false ? UNKNOWN : (WORDS.bases[basis] ?? UNKNOWN)),
  failure: (mode) => (WORDS.no_failure.includes(mode) ? UNKNOWN : named(mode)),
  gain: (value) => moved(value, share),
  gain_percent: (value) => moved(value, percent),
  grade: (_, __, row) => groupGrade(row),
  infrastructure: (without, failures) => (failures ? `${percent(without)} (${count(failures)})` : UNKNOWN),
  letter: (value) => grade(value),
  name: (value) => named(value),
  of: (part, whole) => (whole === null ? count(part) : `${count(part)} / ${count(whole)}`),
  outcome: (word) => outcome(word),
  place: (value) => value ?? UNKNOWN,
  pass_at_1: (found) => passAt(found?.["1"]),
  pass_at_most: (found) => mostPasses(found),
  progress: (_, __, run) => progress(run.progress, ` (${whyIncomplete(run.progress)})`),
  run: (display, id) => named(display ?? id),
  some_dollars: (value) => (value ? usd(value) : UNKNOWN),
  some: (value) => (value ? count(value) : UNKNOWN),
  state: (word, _, row) => stateBadge(word, row.status ?? null),
  task: (task, shard) => named(shard ? `${shard}: ${task}` : task),
  tier: (tier, subtest) => named(tier === null || subtest === null ? tier : `${tier}/${subtest}`),
};

// Names of metrics come from outside: `constructor` is none unless the row has it itself.
export const found = (row, path) => path.reduce((value, step) => (Object.hasOwn(value ?? {}, step) ? value[step] : null), row);

// What rows are sorted by; null where nobody knows.
function sortValue(column, row) {
  const value = found(row, column.path) ?? (column.format === "run" ? found(row, column.beside) : null);
  if (value === null || column.format === "age") return value;
  if (column.format === "place") return Number.parseInt(value, 10);
  if (column.format === "grade") return WORDS.grades.indexOf(value);
  return column.left ? String(value).toLowerCase() : number(value);
}

// The columns of a board for a Table: those that some row knows, and the first.
// cells: name of a column -> cell(row), where this page draws more than the format says.
export function columnsOf(board, rows, cells = {}) {
  const columns = typeof board === "string" ? BOARDS[board] : board;
  const kept = columns.filter((column, at) => at === 0 || rows.length === 0 || rows.some((row) => cells[column.name] || cell(column, row) !== column.empty));
  return kept.map((column) => ({
    id: column.name,
    title: column.title,
    outside: column.outside ?? false,
    hint: column.hint || null,
    about: column.about === WORDS.questions.final && !rows.some(interval) ? "" : column.about,
    number: !column.left,
    high: column.sort === "greatest",
    value: column.sort ? (row) => sortValue(column, row) : null,
    cell: cells[column.name] ?? ((row) => cell(column, row)),
  }));
}

function cell(column, row) {
  const value = found(row, column.path);
  if (column.format === "pass_rate") return passRate(row);
  if (METERS.includes(column.name)) return meter(value, WRITERS[column.format]);
  if (column.format in WRITERS) return WRITERS[column.format](value);
  return CELLS[column.format](value, column.beside.length ? found(row, column.beside) : null, row);
}

const named = (value) => (value === null ? UNKNOWN : name(value));

export const badge = (text, mood) => h("span", { class: `badge ${mood}` }, text);

export const outcome = (word) => h("span", { class: `badge ${MOODS[word] ?? ""}` }, WORDS.outcomes[word] ?? word);

// The word comes from the API; how the harness called the end is its title.
export function stateBadge(word, status) {
  const title = status === null ? null : `the harness says: ${visible(status)}`;
  return h("span", { class: `badge state-${word}`, title }, word);
}

// why: what stands beside the count while the plan is not complete
// Why a plan is not complete: parts of the run are missing, or nobody knows what.
export function whyIncomplete({ parts }) {
  return parts && parts.seen < parts.planned ? `${count(parts.seen)} of ${count(parts.planned)} parts seen` : WORDS.plan_incomplete;
}

export function progress({ done, planned, plan_complete: complete }, why = "") {
  if (planned === null) return `${count(done)}${complete === false ? why : ""}`;
  const bar = h("div", { class: "progress", "aria-hidden": "true" }, h("i", { "--share": planned ? Math.max(0, Math.min(1, done / planned)) : 0 }));
  return h("span", {}, `${count(done)} / ${count(planned)}`, bar);
}

// * while not every planned task supports it.
const passAt = (found) => (found?.value === null || found === undefined ? UNKNOWN : `${percent(found.value)}${found.partial ? "*" : ""}`);

function mostPasses(found) {
  const most = Object.entries(found ?? {}).filter(([k, one]) => Number(k) > 1 && one.value !== null).at(-1);
  return most ? `${most[0]}: ${passAt(most[1])}` : UNKNOWN;
}

function moved(value, write) {
  const by = number(value);
  if (by === null || !Number.isFinite(by)) return write(value);
  return h("span", { class: by > 0 ? "better" : by < 0 ? "worse" : null }, signed(by, write));
}
