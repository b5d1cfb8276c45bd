// Agents across runs by one metric.

import { get } from "./api.js";
import { card, h, name } from "./dom.js";
import { select } from "./controls.js";
import { GRADE_MARKS, basis, count, groupGrade } from "./format.js";
import { METRICS } from "./metrics.js";
import { runLink } from "./runs.js";
import { Table } from "./table.js";

const REFRESH_MS = 5000;
const BOARDS = ["pass_rate", "accuracy", "composite_score", "impl_rate", "mean_speedup", "agent_advantage", "cost_of_pass", "mean_cost", "total_cost", "mean_duration"];

export class Leaders {
  constructor(chosen, change, state) {
    this.state = state;
    this.chosen = { metric: BOARDS.includes(chosen.metric) ? chosen.metric : "pass_rate", benchmark: chosen.benchmark ?? "" };
    const set = (what) => (value) => {
      this.chosen[what] = value;
      change(this.chosen);
      this.ask();
    };
    const metric = select("By", BOARDS.map((id) => [id, METRICS[id].title]), this.chosen.metric, set("metric"));
    this.benchmark = select("Benchmark", [["", "all"]], "", set("benchmark"));
    this.table = new Table(this.columns(), { caption: "Leaderboard", key: (row) => `${row.run}\n${row.agent_model}`, empty: "No agent is on this board." });
    this.note = h("p", { class: "note body" }, "Baselines are left out; where planned trials are missing, the row is provisional (*) and comes last.");
    this.element = card("Leaderboard", [metric.element, this.benchmark.element], this.table.element, this.note);
    this.ask();
    this.timer = setInterval(() => document.hidden || this.ask(), REFRESH_MS);
  }

  columns() {
    const metric = METRICS[this.chosen.metric];
    return [
      { id: "agent", title: "Agent : model", cell: (row) => name(row.agent_model) },
      { id: "rank", title: "Rank", number: true, cell: (row) => count(row.rank) },
      { id: this.chosen.metric, title: metric.title, number: true, cell: (row) => metric.write(row.value) },
      { id: "grade", title: "Grade", hint: GRADE_MARKS, cell: groupGrade },
      { id: "basis", title: "Rests on", cell: basis },
      { id: "trials", title: "Trials", number: true, cell: (row) => count(row.trials) },
      { id: "state", title: "State of the run", cell: (row) => h("span", { class: `badge state-${row.state}` }, row.state) },
      { id: "run", title: "Run", cell: (row) => h("a", { href: runLink(row.run) }, name(row.run)) },
    ];
  }

  async ask() {
    try {
      const [rows, runs] = await Promise.all([get("/api/leaderboard", this.chosen), get("/api/runs")]);
      const benchmarks = [...new Set(runs.map((run) => run.benchmark).filter(Boolean))].sort();
      this.benchmark.offer([["", "all"], ...benchmarks.map((benchmark) => [benchmark, benchmark])]);
      this.table.setColumns(this.columns());
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
