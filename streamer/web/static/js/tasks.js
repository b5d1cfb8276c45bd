// The tab of the matrix: asks for it, and again while the run goes on.

import { get, runPath, taskPage } from "./api.js";
import { runLink } from "./runs.js";
import { h, matrixCard, matrixChoices, MatrixGrid, matrixShare } from "./shared.js";
import { Asking } from "./trouble.js";

export class Tasks {
  // options: {metric, sort}; change(options): so that the address can follow
  constructor(run, options, change) {
    this.run = run;
    this.options = options;
    const trials = (agent, { task_id, tier }) => runLink(run, `/trials?${new URLSearchParams({ agent, task: task_id, ...(tier === null ? {} : { tier }) })}`);
    this.grid = new MatrixGrid(trials, (task) => taskPage(run, task.task_id));
    this.note = h("p", { class: "body note" }, "Loading…");
    const choose = (chosen) => {
      change(Object.assign(this.options, chosen));
      this.asking.ask();
    };
    this.element = matrixCard(this.grid, matrixChoices(options, choose), this.note);
    this.asking = new Asking(this.element, (signal) => this.load(signal), () => this.found || (this.note.textContent = ""));
    this.asking.ask();
  }

  async load(signal) {
    const { metric, sort } = this.options;
    const matrix = await get(runPath(this.run, "/matrix"), { metric, sort }, signal);
    this.grid.update(matrix);
    this.note.textContent = matrix.tasks.length ? matrixShare(matrix) : "No trial yet.";
    this.found = true;
  }

  close() {
    this.asking.close();
    this.grid.close();
  }
}
