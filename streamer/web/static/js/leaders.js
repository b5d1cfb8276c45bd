// Agents across runs by one metric.

import { get } from "./api.js";
import { BOARDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { card, h, name } from "./dom.js";
import { select } from "./controls.js";
import { LEADER_METRICS, METRICS } from "./metrics.js";
import { isNamed, namedColumn, nameIn } from "./named.js";
import { runLink } from "./runs.js";
import { Table } from "./table.js";

const REFRESH_MS = 5000;

export class Leaders {
  constructor(chosen, change, state) {
    this.state = state;
    this.chosen = { metric: LEADER_METRICS.includes(chosen.metric) || isNamed(chosen.metric ?? "") ? chosen.metric : "pass_rate", benchmark: chosen.benchmark ?? "" };
    const set = (what) => (value) => {
      this.chosen[what] = value;
      change(this.chosen);
      this.ask();
    };
    this.planned = new Map();
    this.metric = select("By", this.choices(), this.chosen.metric, set("metric"));
    this.benchmark = select("Benchmark", [["", "all"]], "", set("benchmark"));
    this.table = new Table(this.columns([]), { caption: "Leaderboard", primary: "value", key: (row) => `${row.run}\n${row.agent_model}`, empty: "No agent is on this board." });
    this.note = h("p", { class: "note body" }, "Baselines are left out; where planned trials are missing, the row is provisional (*) and comes last.");
    this.element = card("Leaderboard", [this.metric.element, this.benchmark.element], this.table.element, this.note);
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

  columns(rows) {
    const { metric } = this.chosen;
    const of = isNamed(metric) ? namedColumn(nameIn(metric), this.planned.get(nameIn(metric)) ?? null) : BOARDS.agents.find((column) => column.name === metric);
    const value = { ...of, name: "value", path: ["value"], sort: null };
    const columns = BOARDS.leaders.map((column) => (column.name === "value" ? value : column));
    return columnsOf(columns, rows, { run: (row) => h("a", { href: runLink(row.run) }, name(row.run)) });
  }

  async ask() {
    try {
      const [rows, runs] = await Promise.all([get("/api/leaderboard", this.chosen), get("/api/runs")]);
      const benchmarks = [...new Set(runs.map((run) => run.benchmark).filter(Boolean))].sort();
      this.benchmark.offer([["", "all"], ...benchmarks.map((benchmark) => [benchmark, benchmark])]);
      this.plan(runs);
      this.table.setColumns(this.columns(rows));
      this.table.update(rows);
      this.state("live");
    } catch (error) {
      this.state("lost");
      this.note.textContent = error.message;
    }
  }

  close() {
    clearInterval(this.timer);
  }
}
