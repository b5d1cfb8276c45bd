// What a comparison says: in words, by metric, and the tasks that one side alone passes.

import { BOARDS, WORDS } from "./boards.js";
import { WRITERS, columnsOf } from "./cells.js";
import { h, name, visible } from "./dom.js";
import { count, counted, difference, differences, percent, ratio, usd, number } from "./format.js";
import { isNamed, nameIn, namedColumn } from "./named.js";
import { runLink } from "./runs.js";
import { Table } from "./table.js";

const SIDES = ["a", "b"];

// Elements in their order; the sentences come from the server, as `streamer compare` prints them.
export function comparison(found) {
  const sides = SIDES.map((side) => h("p", {}, `${side.toUpperCase()}  `, ...whose(found[side])));
  const lines = [found.in_common, ...found.words].map((line) => h("p", {}, visible(line)));
  const note = h("p", { class: "body note" }, found.ended ? WORDS.compared : WORDS.compared_open);
  const parts = [h("div", { class: "body note notes said" }, ...sides, ...lines), totals(found).element, note];
  if (found.flips.length) parts.push(h("h3", { class: "part" }, "Tasks that one side alone passes"), flips(found).element);
  return [...parts, ...SIDES.map((side) => notCommon(found, side)).filter(Boolean)];
}

const whose = (side) => [name(side.run), ": ", side.agent_model === null ? "all but baselines" : name(side.agent_model), `, ${counted(side.trials, "trial")} of the common tasks`];

function totals(found) {
  const columns = metrics(found);
  const of = (column) => found.differences[column.name];
  const write = (column) => WRITERS[column.format];
  const value = (side, column) => (isNamed(column.name) ? found[side].metrics[nameIn(column.name)] : found[side][column.name]) ?? null;
  const counts = (field) => (column) => count(of(column)[field]);
  const cells = {
    metric: (column) => (column.outside ? name(column.title) : column.title),
    a: (column) => write(column)(value("a", column)),
    b: (column) => write(column)(value("b", column)),
    moved: (column) => moved(of(column).mean, write(column), of(column).higher_is_better),
    interval: (column) => ends(of(column).interval, write(column)),
    tasks: counts("tasks"),
    a_better: counts("a_better"),
    b_better: counts("b_better"),
    equal: counts("equal"),
    p: (column) => chance(of(column).p_value),
  };
  const some = columns.some((column) => of(column).interval);
  const heads = columnsOf("comparison", columns, cells).filter(({ id }) => id !== "interval" || some);
  const table = new Table(heads, { caption: "Totals", key: (column) => column.name, primary: "moved" });
  table.update(columns);
  return table;
}

// The compared metrics that some task has on both sides, named ones last.
function metrics(found) {
  const named = Object.entries(found.differences).filter(([metric]) => isNamed(metric));
  const columns = named.map(([metric, { unit, label, higher_is_better }]) => namedColumn(nameIn(metric), { unit, label, direction: higher_is_better ? "higher" : "lower" }));
  return [...BOARDS.compared, ...columns].filter((column) => found.differences[column.name].tasks > 0);
}

function flips(found) {
  const cells = {
    passed_by: (group) => `${group.passed_by.toUpperCase()} alone`,
    tasks: (group) => listed(group.tasks, group.count, (task) => lost(found, group, task)),
  };
  const table = new Table(columnsOf("flips", found.flips, cells), { caption: "Tasks that one side alone passes", key: (group) => JSON.stringify([group.passed_by, group.tier, group.failure_mode]), primary: "count" });
  table.update(found.flips);
  return table;
}

// The trials of the side that does not pass the task.
function lost(found, group, task) {
  const other = found[group.passed_by === "a" ? "b" : "a"];
  const task_id = group.tier === null ? task : task.slice(group.tier.length + 1);
  const wanted = { task: task_id, tier: group.tier, agent: other.agent_model };
  const given = Object.entries(wanted).filter(([, value]) => value !== null);
  return h("a", { href: runLink(other.run, `/trials?${new URLSearchParams(given)}`) }, name(task));
}

function notCommon(found, side) {
  const tasks = found[side === "a" ? "not_in_b" : "not_in_a"];
  const all = found[side].only_here;
  return all && tasks.length ? h("div", { class: "body" }, listed(tasks, all, name, ` only in ${side.toUpperCase()}`)) : null;
}

// A list to unfold: so many tasks, and the first of them by name.
function listed(tasks, all, draw, what = "") {
  const more = all - tasks.length;
  const items = tasks.map((task) => h("li", {}, draw(task)));
  const rest = more > 0 ? h("li", {}, `and ${count(more)} more`) : null;
  return h("details", {}, h("summary", {}, `${counted(all, "task")}${what}`), h("ul", {}, ...items, rest));
}

// The tasks of one page, the most different first.
export function pairs(found) {
  const side = (which, title) => ({ id: which, title, number: true, high: true, value: (p) => p[which].pass_rate, cell: (p) => `${percent(p[which].pass_rate)} of ${count(p[which].trials)}` });
  const cost = (which, title) => ({ id: `${which}_cost`, title, number: true, value: (p) => number(p[which].cost_usd), cell: (p) => usd(p[which].cost_usd) });
  const tiered = found.pairs.some((pair) => pair.tier !== null);
  const table = new Table(
    [
      { id: "task", title: "Task", value: (p) => p.task_id, cell: (p) => name(p.task_id) },
      tiered && { id: "tier", title: "Tier", value: (p) => p.tier, cell: (p) => (p.tier === null ? "–" : name(p.tier)) },
      side("a", "A"),
      side("b", "B"),
      { id: "difference", title: "B - A", number: true, high: true, value: (p) => p.b.pass_rate - p.a.pass_rate, cell: (p) => moved(p.b.pass_rate - p.a.pass_rate, percent, true) },
      cost("a", "Cost, A"),
      cost("b", "Cost, B"),
    ].filter(Boolean),
    { caption: "Tasks that both have done", key: (p) => `${p.task_id}\n${p.tier}` },
  );
  table.update(found.pairs);
  return table;
}

function moved(by, write, high) {
  if (by === null) return "–";
  const mood = by === 0 ? null : by > 0 === high ? "better" : "worse";
  return h("span", { class: mood }, difference(by, write));
}

const ends = (interval, write) => (interval ? differences(interval, write) : "–");

const chance = (p) => (p === null ? "–" : p < 0.001 ? "< 0.001" : ratio(p));
