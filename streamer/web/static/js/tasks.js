// The tab of the matrix: asks for it, and again while the run goes on.

import { get, runPath, taskPage } from "./api.js";
import { runLink } from "./runs.js";
import { h, matrixCard, matrixChoices, MatrixGrid, matrixShare } from "./shared.js";
import { Trouble } from "./trouble.js";

const REFRESH_MS = 3000;

export class Tasks {
  // options: {metric, sort}; change(options): so that the address can follow
  constructor(run, options, change) {
    this.run = run;
    this.options = options;
    this.grid = new MatrixGrid((agent, task) => {
      location.hash = runLink(run, `/trials?${new URLSearchParams({ agent, task: task.task_id, ...(task.tier === null ? {} : { tier: task.tier }) })}`);
    }, (task) => taskPage(run, task.task_id));
    this.note = h("p", { class: "body note" }, "Loading…");
    const choose = (chosen) => {
      Object.assign(this.options, chosen);
      change(this.options);
      this.ask();
    };
    this.element = matrixCard(this.grid, matrixChoices(options, choose), this.note);
    this.trouble = new Trouble(this.element, () => this.ask());
    this.ask();
  }

  update() {
    if (this.refreshing || document.hidden) return;
    this.refreshing = setTimeout(() => {
      this.refreshing = 0;
      this.ask();
    }, REFRESH_MS);
  }

  async ask() {
    this.pending?.abort();
    this.pending = new AbortController();
    const { metric, sort } = this.options;
    try {
      const matrix = await get(runPath(this.run, "/matrix"), { metric, sort }, this.pending.signal);
      this.grid.update(matrix);
      this.note.textContent = matrix.tasks.length ? matrixShare(matrix) : "No trial yet.";
      this.found = true;
      this.trouble.over();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.trouble.tell(error);
      if (!this.found) this.note.textContent = "";
    }
  }

  close() {
    clearTimeout(this.refreshing);
    this.pending?.abort();
    this.trouble.close();
    this.grid.close();
  }
}
