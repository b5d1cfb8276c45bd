// Agents across runs by one metric.

import { get } from "./api.js";
import { BOARDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { card, h, name } from "./dom.js";
import { select } from "./controls.js";
import { LEADER_METRICS, METRICS } from "./metrics.js";
import { runLink } from "./runs.js";
import { Table } from "./table.js";

const REFRESH_MS = 5000;

export class Leaders {
  constructor(chosen, change, state) {
    this.state = state;
    this.chosen = { metric: LEADER_METRICS.includes(chosen.metric) ? chosen.metric : "pass_rate", benchmark: chosen.benchmark ?? "" };
    const set = (what) => (value) => {
      this.chosen[what] = value;
      change(this.chosen);
      this.ask();
    };
    const metric = select("By", LEADER_METRICS.map((id) => [id, METRICS[id].title]), this.chosen.metric, set("metric"));
    this.benchmark = select("Benchmark", [["", "all"]], "", set("benchmark"));
    this.table = new Table(this.columns([]), { caption: "Leaderboard", key: (row) => `${row.run}\n${row.agent_model}`, empty: "No agent is on this board." });
    this.note = h("p", { class: "note body" }, "Baselines are left out; where planned trials are missing, the row is provisional (*) and comes last.");
    this.element = card("Leaderboard", [metric.element, this.benchmark.element], this.table.element, this.note);
    this.ask();
    this.timer = setInterval(() => document.hidden || this.ask(), REFRESH_MS);
  }

  columns(rows) {
    const of = BOARDS.agents.find((column) => column.name === this.chosen.metric);
    const value = { ...of, name: "value", path: ["value"], sort: null };
    const columns = BOARDS.leaders.map((column) => (column.name === "value" ? value : column));
    return columnsOf(columns, rows, { run: (row) => h("a", { href: runLink(row.run) }, name(row.run)) });
  }

  async ask() {
    try {
      const [rows, runs] = await Promise.all([get("/api/leaderboard", this.chosen), get("/api/runs")]);
      const benchmarks = [...new Set(runs.map((run) => run.benchmark).filter(Boolean))].sort();
      this.benchmark.offer([["", "all"], ...benchmarks.map((benchmark) => [benchmark, benchmark])]);
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
