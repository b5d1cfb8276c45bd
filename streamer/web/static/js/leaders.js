// The leaderboard of each benchmark: agents with their finished runs pooled, what is left out below.

import { get } from "./api.js";
import { BOARDS, WORDS } from "./boards.js";
import { WRITERS, columnsOf } from "./cells.js";
import { card, field, h, name, svg, visible } from "./dom.js";
import { select } from "./controls.js";
import { UNKNOWN, count, number } from "./format.js";
import { LEADER_METRICS, METRICS } from "./metrics.js";
import { isNamed, namedColumn, nameIn } from "./named.js";
import { runLink } from "./runs.js";
import { Table } from "./table.js";

const REFRESH_MS = 5000;
const MIXED = "mixed";
// Leaderboards pool so many runs, the latest ones.
const POOLED_RUNS = 400;

export class Leaders {
  // chosen: {metric, benchmark, label, all_benchmarks}; change(chosen): so that the address can follow
  constructor(chosen, change, state) {
    this.state = state;
    this.chosen = {
      metric: LEADER_METRICS.includes(chosen.metric) || isNamed(chosen.metric ?? "") ? chosen.metric : "pass_rate",
      benchmark: chosen.benchmark ?? "",
      label: chosen.label ?? "",
      all_benchmarks: chosen.all_benchmarks === "true" ? "true" : "",
    };
    const set = (what) => {
      Object.assign(this.chosen, what);
      change(this.chosen);
      this.ask();
    };
    this.planned = new Map();
    this.boards = new Map();
    this.metric = select("By", this.choices(), this.chosen.metric, (metric) => set({ metric }));
    this.benchmark = select("Benchmark", [["", "one board each"]], "", (value) => set(value === MIXED ? { benchmark: "", all_benchmarks: "true" } : { benchmark: value, all_benchmarks: "" }));
    const label = h("input", { type: "search", value: this.chosen.label, placeholder: "KEY=VALUE", pattern: "[^=]+=.*", title: "KEY=VALUE", onchange: () => label.reportValidity() && set({ label: label.value }) });
    this.file = h("a", { class: "plain", download: "leaderboards.html" }, "HTML file");
    this.problem = h("p", { class: "error", role: "alert", hidden: true });
    this.list = h("div", { class: "boards" }, h("p", { class: "empty" }, "Reading…"));
    this.element = card("Leaderboard", [this.metric.element, this.benchmark.element, field("Label", label), this.file], this.problem, this.list);
    this.ask();
    this.timer = setInterval(() => document.hidden || this.ask(), REFRESH_MS);
  }

  // The built-in metrics, what the runs' plans name, and what the address asks for.
  choices() {
    const asked = isNamed(this.chosen.metric) ? [[nameIn(this.chosen.metric), null]] : [];
    const named = [...new Map([...asked, ...this.planned])].map(([name, says]) => namedColumn(name, says));
    const sorted = named.sort((a, b) => (a.name < b.name ? -1 : 1));
    return [...LEADER_METRICS.map((id) => [id, METRICS[id].title]), ...sorted.map((column) => [column.name, column.title])];
  }

  // Named metric to how to read it; of several runs the latest one says it.
  plan(runs) {
    this.planned.clear();
    for (const run of runs) for (const [name, says] of Object.entries(run.metrics ?? {})) if (!this.planned.has(name)) this.planned.set(name, says);
    this.metric.offer(this.choices());
  }

  // The benchmarks of these runs; which one is chosen follows the address.
  offer(runs) {
    const benchmarks = [...new Set(runs.map((run) => run.benchmark).filter(Boolean))].sort();
    const asked = this.chosen.benchmark && !benchmarks.includes(this.chosen.benchmark) ? [this.chosen.benchmark] : [];
    this.benchmark.offer([["", "one board each"], [MIXED, "all, mixed"], ...[...asked, ...benchmarks].map((one) => [one, one])]);
    this.benchmark.select.value = this.chosen.all_benchmarks ? MIXED : this.chosen.benchmark;
  }

  async ask() {
    const asked = { ...this.chosen };
    this.file.href = `/api/leaderboards.html?${new URLSearchParams(Object.entries(asked).filter(([, value]) => value))}`;
    try {
      const [boards, runs] = await Promise.all([get("/api/leaderboards", asked), get("/api/runs", { limit: POOLED_RUNS })]);
      if (JSON.stringify(asked) !== JSON.stringify(this.chosen)) return;
      this.offer(runs);
      this.plan(runs);
      this.show(boards);
      this.say("");
      this.state("live");
    } catch (error) {
      this.say(error.message);
      this.state("lost");
    }
  }

  say(problem) {
    this.problem.textContent = problem;
    this.problem.hidden = !problem;
  }

  // A table for each board; one that was there before stays the same element.
  show(boards) {
    const before = this.boards;
    this.boards = new Map(boards.map((board) => [board.title, before.get(board.title) ?? new Board(board)]));
    for (const board of boards) this.boards.get(board.title).update(board);
    const elements = [...this.boards.values()].map((board) => board.element);
    if (elements.length === 0) elements.push(h("p", { class: "empty" }, "No agent is on this board."));
    const same = elements.length === this.list.children.length && elements.every((element, at) => element === this.list.children[at]);
    if (!same) this.list.replaceChildren(...elements);
  }

  close() {
    clearInterval(this.timer);
  }
}

class Board {
  constructor(board) {
    const title = visible(board.title);
    this.table = new Table(columnsFor(board), { caption: title, primary: "value", key, rowClass: (row) => (row.left_out ? "left-out" : ""), empty: "No agent is on this board." });
    this.notes = h("div", { class: "note body" });
    this.element = h("section", { class: "board", "aria-label": title }, h("h3", {}, name(board.title)), this.table.element, this.notes);
  }

  update(board) {
    this.table.setColumns(columnsFor(board));
    this.table.update([...board.rows, ...board.below]);
    this.notes.replaceChildren(...board.notes.map((note) => h("p", {}, visible(note))));
  }
}

const key = (row) => `${row.left_out ? row.runs[0] : ""}\n${row.agent_model}`;

function columnsFor(board) {
  const rows = [...board.rows, ...board.below];
  const write = WRITERS[valueColumn(board).format];
  const cells = {
    agent: (row) => [name(row.agent_model), row.why ? h("span", { class: "badge warn" }, row.why) : null],
    rank: (row) => (row.rank ? places(row.rank) : UNKNOWN),
    value: (row) => value(board, row, write),
    runs: (row) => count(row.runs.length),
    newest: (row) => h("a", { href: runLink(row.newest) }, name(row.newest)),
    trend: (row) => (row.trend.length > 1 ? trend(row, write) : UNKNOWN),
    change: (row) => (row.change ? h("span", { class: row.change.certain ? (row.change.difference > 0 ? "better" : "worse") : null, title: visible(row.change.words.join("; ")) }, row.change.said) : UNKNOWN),
  };
  const known = { rank: (row) => row.rank, trend: (row) => row.trend.length > 1, change: (row) => row.change };
  const columns = BOARDS.leaders.map((column) => (column.name === "value" ? { ...valueColumn(board), name: "value", path: ["value"], sort: null, about: rows.some((row) => row.interval) ? WORDS.questions.alike : "" } : column));
  return columnsOf(columns.filter(({ name }) => !known[name] || rows.some(known[name])), rows, cells);
}

function valueColumn(board) {
  const says = { label: board.label, unit: board.unit, direction: board.higher_is_better ? "higher" : "lower" };
  return isNamed(board.metric) ? namedColumn(nameIn(board.metric), says) : BOARDS.agents.find((column) => column.name === board.metric);
}

const places = ({ best, worst }) => (best === worst ? String(best) : `${best}-${worst}`);

// The value with its interval; where it is a share with a thin bar of that.
function value(board, row, write) {
  const ends = row.interval;
  if (!ends) return write(row.value);
  const text = h("span", {}, write(row.value), " ", h("span", { class: "note" }, `[${write(ends.low)}, ${write(ends.high)}]`));
  if (!METRICS[board.metric]?.share) return text;
  const bar = h("span", { class: "reach", "aria-hidden": "true" }, h("i", { "--low": ends.low, "--high": ends.high }), h("b", { "--at": number(row.value) }));
  return h("span", { class: "reached" }, text, bar);
}

const SPARK = { width: 72, height: 18 };

// The values of the finished runs as a line, and as text for those who do not see it.
function trend(row, write) {
  const values = row.trend.map((point) => number(point.value)).filter(Number.isFinite);
  const title = row.trend.map((point) => `${visible(point.run)}: ${write(point.value)}`).join("\n");
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const at = (value, place) => `${(2 + (place * (SPARK.width - 4)) / Math.max(1, values.length - 1)).toFixed(1)},${(SPARK.height - 3 - ((value - low) / (high - low || 1)) * (SPARK.height - 6)).toFixed(1)}`;
  const line = svg("polyline", { points: values.map(at).join(" ") });
  return svg("svg", { class: "spark", viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, role: "img", "aria-label": title }, svg("title", {}, title), line);
}
