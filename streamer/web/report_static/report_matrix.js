// The matrix of a report: the file has every colour and order. A cell opens its trials; the address says which.

const START = "#tasks?";

export class ReportMatrix {
  // whole: as `whole_matrix` of streamer/views/models.py gives it; trials: {heads, rows: [agent, task, tier, cells]},
  // null: too many of them
  constructor(whole, trials) {
    Object.assign(this, { whole, trials });
    this.titles = trials?.heads.map((head) => made(head).textContent);
    this.grid = new MatrixGrid(trials ? (agent, { task_id, tier }) => this.address({ ...this.chosen, agent, task: task_id, tier }) : null);
    this.controls = h("div", { class: "controls" });
    const note = [matrixShare(whole.matrix), trials ? "A cell opens its trials." : "Too many trials to open them here; CSV has all."];
    this.opened = h("div", { class: "opened", tabindex: "-1" });
    this.element = h("div", { class: "stack" }, matrixCard(this.grid, [this.controls], h("p", { class: "body note" }, note.join(". "))), this.opened);
    window.addEventListener("hashchange", () => this.show());
    this.show();
  }

  address(options) {
    const given = Object.entries(options).filter(([, value]) => value !== null && value !== undefined);
    return START + new URLSearchParams(given);
  }

  show() {
    const { metric, sort, ...cell } = Object.fromEntries(new URLSearchParams(location.hash.startsWith(START) ? location.hash.slice(START.length) : ""));
    this.chosen = { metric: Object.hasOwn(this.whole.means, metric ?? "") ? metric : "outcome", sort: Object.hasOwn(this.whole.orders, sort ?? "") ? sort : "difficulty" };
    const change = (chosen) => location.replace(this.address({ ...this.chosen, ...cell, ...chosen }));
    this.offer(change);
    this.grid.update(this.coloured());
    const opened = JSON.stringify([cell.agent, cell.task, cell.tier]);
    if (opened !== this.cell) this.open(cell);
    this.cell = opened;
  }

  // Where somebody goes through the choices by keyboard, the same choice keeps the focus.
  offer(change) {
    const at = [...this.controls.querySelectorAll("select")].indexOf(document.activeElement);
    this.controls.replaceChildren(...matrixChoices(this.chosen, change, ["outcome", ...Object.keys(this.whole.means)]));
    this.controls.querySelectorAll("select")[at]?.focus();
  }

  // The matrix with the means of the chosen metric, its tasks in the chosen order.
  coloured() {
    const { matrix, means, orders } = this.whole;
    const of = means[this.chosen.metric];
    const task = (at) => ({ ...matrix.tasks[at], cells: matrix.tasks[at].cells.map((cell, agent) => cell && [...cell.slice(0, -1), of ? of.cells[at][agent] : null]) });
    return { ...matrix, metric: this.chosen.metric, tasks: orders[this.chosen.sort].map(task), low: of?.low ?? null, high: of?.high ?? null };
  }

  open({ agent, task, tier }) {
    if (!this.trials || agent === undefined || task === undefined) return this.opened.replaceChildren();
    const rows = this.trials.rows.filter(([by, on, at]) => by === agent && on === task && at === (tier ?? null));
    const table = new DrawnTable("Trials in the cell");
    table.table.dataset.shown = Infinity;
    const drawn = Object.fromEntries(rows.map(([, , , cells], at) => [`row ${at}`, ["tr", {}, ...cells.map((cell, place) => [place ? "td" : "th", { "data-label": this.titles[place] }, cell])]]));
    table.take({ "": { heads: this.trials.heads, order: Object.keys(drawn), notes: [], empty: "No trial fits." }, ...drawn });
    const whose = h("p", { class: "body note" }, name(agent), " on ", name(task), tier === undefined ? null : [" in ", name(tier)]);
    this.opened.replaceChildren(card("Trials in the cell", [], whose, table.element));
    this.opened.focus();
  }
}
