// Every agent on every task. Drawn on a canvas, so that 60 x 500 scroll; a cell is chosen by mouse or by keys.

const COLOURS = { outcome: "Outcome", composite_score: "Composite", cost_usd: "Cost", duration_seconds: "Duration", task_speedup: "Speedup" };
const WRITE = { composite_score: ratio, cost_usd: usd, duration_seconds: duration, task_speedup: times };
const SORTS = { difficulty: "hardest first", disagreement: "most disagreement first", task: "by name" };
const CELL = { width: 26, height: 20 };
const SLANT = Math.PI / 3.4;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-15, 0], PageDown: [15, 0] };
const [TRIALS, PASSES, NO_VERDICT, RUNNING, VALUE] = [0, 1, 2, 3, 4];

export class MatrixGrid {
  // trials(agent, task): the address of the trials of a cell; null: cells lead nowhere
  // page(task): the address of the task over all runs; null: there is none
  constructor(trials, page = null) {
    this.trials = trials;
    this.page = page;
    this.at = [0, 0];
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.link = h("a", { tabindex: "-1", "aria-hidden": "true", hidden: true }); // lies over the cell at hand
    this.space = h("div", { class: "space" }, this.canvas, this.link);
    this.box = h("div", { class: "matrix", tabindex: "0", role: "application", "aria-label": "Agents by tasks", "aria-describedby": "matrix-cell", title: trials ? "Enter or click opens the trials" : null }, this.space);
    this.status = h("p", { class: "note", id: "matrix-cell", role: "status" }, "");
    this.element = h("div", {}, this.box, h("div", { class: "body" }, this.status, legend()));
    this.box.addEventListener("scroll", () => this.drawSoon(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.box.addEventListener("focus", () => this.say());
    this.space.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("click", (event) => this.point(event) && this.enter());
    this.watcher = new ResizeObserver(() => this.drawSoon());
    this.watcher.observe(this.box);
  }

  update(matrix) {
    this.matrix = matrix;
    const [rows, columns] = [matrix.tasks.length, matrix.agents.length];
    this.at = [Math.min(this.at[0], Math.max(0, rows - 1)), Math.min(this.at[1], Math.max(0, columns - 1))];
    this.measured = 0;
    this.box.dataset.cells = String(matrix.tasks.reduce((sum, task) => sum + task.cells.filter(Boolean).length, 0));
    this.drawSoon();
  }

  // Room for the names, by the width that the box has once it is on the page.
  measure(width) {
    const { matrix } = this;
    this.measured = width;
    const pen = this.canvas.getContext("2d");
    pen.font = `12px ${inks(this.box).font}`;
    const widest = (texts, most) => Math.min(most, 20 + Math.max(60, ...texts.map((text) => pen.measureText(visible(text)).width)));
    this.side = widest(matrix.tasks.map(this.title), 0.4 * width);
    this.head = Math.sin(SLANT) * widest(matrix.agents, 320);
    this.space.style.cssText = `width:${this.side + matrix.agents.length * CELL.width + 0.75 * this.head}px;height:${this.head + matrix.tasks.length * CELL.height + 4}px`;
  }

  drawSoon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.matrix) this.draw();
    });
  }

  draw() {
    const { clientWidth: width, clientHeight: height, scrollTop: top, scrollLeft: left } = this.box;
    if (!width) return; // not on the page yet; the watcher tells once it is
    if (this.measured !== width) this.measure(width);
    const scale = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale)) {
      Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
      this.canvas.style.cssText = `width:${width}px;height:${height}px`;
    }
    const pen = this.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.lay(top, left);
    const ink = inks(this.box);
    const rows = span(top, height - this.head, CELL.height, this.matrix.tasks.length);
    const columns = span(left, width - this.side, CELL.width, this.matrix.agents.length);
    clipped(pen, this.side, this.head, width, height, () => {
      Object.assign(pen, { font: `10px ${ink.font}`, textAlign: "center", textBaseline: "middle" });
      for (const row of rows) for (const column of columns) this.cell(pen, ink, row, column, this.side + column * CELL.width - left, this.head + row * CELL.height - top);
    });
    pen.font = `12px ${ink.font}`;
    pen.textBaseline = "middle";
    clipped(pen, 0, this.head, this.side - 6, height, () => {
      for (const row of rows) this.label(pen, ink, this.title(this.matrix.tasks[row]), 8, this.head + (row + 0.5) * CELL.height - top, row === this.at[0]);
    });
    clipped(pen, this.side, 0, width, this.head, () => {
      for (const column of columns) {
        pen.save();
        pen.translate(this.side + (column + 0.5) * CELL.width - left, this.head - 6);
        pen.rotate(-SLANT);
        this.label(pen, ink, this.matrix.agents[column], 0, 0, column === this.at[1]);
        pen.restore();
      }
    });
  }

  // A cell that the names cover in part has no link: it would lie over them.
  lay(top, left) {
    const [y, x, to] = [this.at[0] * CELL.height, this.at[1] * CELL.width, this.target()];
    this.link.hidden = !to || y < top || x < left;
    if (to && this.link.hash !== to) this.link.href = to;
    this.link.style.cssText = `left:${this.side + x}px;top:${this.head + y}px`;
  }

  label(pen, ink, text, x, y, chosen) {
    pen.fillStyle = chosen ? ink.accent : ink.text;
    pen.fillText(visible(text), x, y);
  }

  cell(pen, ink, row, column, x, y) {
    const cell = this.matrix.tasks[row].cells[column];
    const [width, height] = [CELL.width - 2, CELL.height - 2];
    if (cell) {
      pen.globalAlpha = this.strength(cell);
      pen.fillStyle = this.colour(ink, cell);
      pen.fillRect(x, y, width, height);
      pen.globalAlpha = 1;
      pen.fillStyle = pen.strokeStyle = ink.text;
      if (cell[RUNNING]) {
        pen.strokeStyle = ink.accent;
        pen.lineWidth = 2;
        pen.strokeRect(x + 1, y + 1, width - 2, height - 2);
      }
      pen.fillText(marks(cell), x + width / 2, y + height / 2);
    }
    if (row === this.at[0] && column === this.at[1]) {
      pen.strokeStyle = ink.text;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y - 1, width + 2, height + 2);
    }
  }

  colour(ink, cell) {
    if (this.matrix.metric !== "outcome") return cell[VALUE] === null ? ink.sunk : ink.accent;
    if (!cell[TRIALS]) return ink.sunk;
    if (cell[NO_VERDICT] === cell[TRIALS]) return ink.warn;
    return cell[PASSES] * 2 >= cell[TRIALS] ? ink.good : ink.bad;
  }

  strength(cell) {
    const { metric, low, high } = this.matrix;
    if (metric === "outcome") {
      const share = cell[TRIALS] ? cell[PASSES] / cell[TRIALS] : 0.5;
      return 0.25 + Math.abs(share - 0.5);
    }
    const value = number(cell[VALUE]);
    return value === null ? 0.6 : 0.12 + (0.88 * (value - low)) / (high - low || 1);
  }

  title = (task) => (task.tier === null ? task.task_id : `${task.tier}  ${task.task_id}`);

  point(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left, event.clientY - bounds.top];
    if (!this.matrix || x < this.side || y < this.head) return false;
    const row = Math.floor((y - this.head + this.box.scrollTop) / CELL.height);
    const column = Math.floor((x - this.side + this.box.scrollLeft) / CELL.width);
    if (row >= this.matrix.tasks.length || column >= this.matrix.agents.length) return false;
    this.move(row, column);
    return true;
  }

  key(event) {
    if (event.key === "Enter") return this.enter();
    const step = MOVES[event.key];
    if (!step || !this.matrix) return;
    event.preventDefault();
    const limit = (value, most) => Math.max(0, Math.min(most - 1, value));
    this.move(limit(this.at[0] + step[0], this.matrix.tasks.length), limit(this.at[1] + step[1], this.matrix.agents.length));
    this.reveal();
  }

  move(row, column) {
    if (row === this.at[0] && column === this.at[1]) return;
    this.at = [row, column];
    this.say();
    this.drawSoon();
  }

  reveal() {
    const [row, column] = this.at;
    const within = (scroll, size, start, length) => Math.max(start + length - size, Math.min(scroll, start));
    this.box.scrollTop = within(this.box.scrollTop, this.box.clientHeight - this.head, row * CELL.height, CELL.height);
    this.box.scrollLeft = within(this.box.scrollLeft, this.box.clientWidth - this.side, column * CELL.width, CELL.width);
  }

  say() {
    const task = this.matrix?.tasks[this.at[0]];
    if (!task) return;
    const agent = this.matrix.agents[this.at[1]];
    const page = this.page ? [" · ", h("a", { href: this.page(task) }, "this task over all runs")] : [];
    this.status.replaceChildren(`${visible(agent)} on ${visible(this.title(task))}: ${this.words(task.cells[this.at[1]])}`, ...page);
  }

  words(cell) {
    if (!cell) return "no trial yet";
    const found = [`${count(cell[PASSES])} of ${count(cell[TRIALS])} passed`];
    if (cell[NO_VERDICT]) found.push(`${count(cell[NO_VERDICT])} without a verdict`);
    if (cell[RUNNING]) found.push(`${count(cell[RUNNING])} running`);
    const metric = this.matrix.metric;
    if (metric !== "outcome") found.push(`${COLOURS[metric].toLowerCase()} ${WRITE[metric](cell[VALUE])}`);
    return found.join(", ");
  }

  // Where the cell at hand leads.
  target() {
    const [task, agent] = [this.matrix?.tasks[this.at[0]], this.at[1]];
    return this.trials && task?.cells[agent] ? this.trials(this.matrix.agents[agent], task) : null;
  }

  enter() {
    location.hash = this.target() ?? location.hash;
  }

  close() {
    this.watcher.disconnect();
    cancelAnimationFrame(this.frame);
  }
}

// Several trials: how many passed; one: a cross where it failed, so that colour is not all that tells.
function marks(cell) {
  if (cell[TRIALS] > 1) return `${cell[PASSES]}/${cell[TRIALS]}`;
  if (cell[TRIALS] === 1) return cell[NO_VERDICT] ? "?" : cell[PASSES] ? "" : "×";
  return cell[RUNNING] ? "…" : "";
}

function span(scroll, size, step, most) {
  const first = Math.max(0, Math.floor(scroll / step));
  const last = Math.min(most, Math.ceil((scroll + size) / step));
  return Array.from({ length: Math.max(0, last - first) }, (_, at) => first + at);
}

function clipped(pen, left, top, right, bottom, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, right - left, bottom - top);
  pen.clip();
  draw();
  pen.restore();
}

function inks(element) {
  const style = getComputedStyle(element);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { text: of("text"), good: of("good"), bad: of("bad"), warn: of("warn"), accent: of("accent"), sunk: of("strong-line"), font: style.fontFamily };
}

function legend() {
  const entry = (mark, text) => h("span", {}, h("i", { class: mark, "aria-hidden": "true" }), text);
  return h("p", { class: "note key" }, entry("good", WORDS.outcomes.passed), entry("bad", `${WORDS.outcomes.failed} ×`), entry("warn", `${WORDS.outcomes.no_verdict} ?`), entry("going", "running …"), h("span", {}, "2/3: 2 of 3 passed. Arrow keys move."));
}

// metrics: what a cell may be coloured by
export const matrixChoices = (chosen, change, metrics = Object.keys(COLOURS)) => [
  select("Colour", metrics.map((metric) => [metric, COLOURS[metric]]), chosen.metric ?? "outcome", (metric) => change({ metric })).element,
  select("Order", Object.entries(SORTS), chosen.sort ?? "difficulty", (sort) => change({ sort })).element,
];

export const matrixCard = (grid, controls, note) => card("Agents by tasks", controls, grid.element, note);

export const matrixShare = ({ tasks, agents }) => {
  const rates = tasks.map((task) => task.pass_rate).filter((rate) => rate !== null);
  const hardest = rates.length ? `; the hardest task passes in ${percent(Math.min(...rates))} of trials` : "";
  return `${counted(tasks.length, "task")}, ${counted(agents.length, "agent")}${hardest}`;
};
