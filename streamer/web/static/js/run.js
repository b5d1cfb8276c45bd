// One run: its head, and what is chosen of board, tiers, trials and comparison.

import { Compare } from "./compare.js";
import { closeDrawer, openTrial } from "./drawer.js";
import { Live } from "./live.js";
import { Running, budgetWords } from "./outlook.js";
import { runLink } from "./runs.js";
import { get, runPath } from "./api.js";
import { card, Charts, color, DrawnTable, field, h, made, name, tick, visible, WORDS } from "./shared.js";
import { Tasks } from "./tasks.js";
import { Tiers } from "./tiers.js";
import { Trials } from "./trials.js";

const TABS = { board: "Board", tiers: "Tiers", tasks: "Tasks", trials: "Trials", compare: "Compare" };
// Place of the tile that the words of a budget stand in.
const COST = 2;

export class Run {
  // options: of the address; follow(tab)(options, push): so that the address can follow
  constructor(run, tab, options, follow, state) {
    const { budget = "", ...rest } = options;
    this.budget = budget;
    this.options = rest;
    this.follow = follow;
    this.id = run;
    this.tab = TABS[tab] ? tab : "board";
    this.run = null; // what the server says of it besides the tables
    this.groups = { agents: [], tiers: [] };
    this.head = h("div", { class: "head" }, h("h1", {}, name(run)));
    this.tiles = h("dl", { class: "tiles" });
    this.running = new Running();
    this.words = null; // of the budget
    this.element = h("div", { class: "run" });
    this.nav = h("nav", { class: "tabs", "aria-label": "Parts of the run" });
    this.drawTabs();
    this.rest = [this.tiles, this.nav, ...this.body()];
    this.parts = [this.head, ...this.rest];
    this.live = new Live(runPath(run, "/updates"), {
      reset: () => (this.run = null),
      remove: (gone) => gone.type === "run_summary" && (this.run = null),
      told: () => this.draw(),
      refused: () => this.ask(state),
      view: () => this.view(),
      drawn: (parts) => this.take(parts),
      state,
    });
  }

  // The budget goes along from part to part.
  drawTabs() {
    const budget = this.budget ? `?${new URLSearchParams({ budget: this.budget })}` : "";
    const links = Object.entries(TABS).map(([id, title]) => h("a", { href: runLink(this.id, `${id === "board" ? "" : `/${id}`}${budget}`), "aria-current": id === this.tab ? "page" : null }, title));
    this.nav.replaceChildren(...links);
  }

  setBudget(input) {
    if (!input.reportValidity()) return;
    this.budget = input.value;
    this.drawTabs();
    this.address(this.options);
    this.askBudget();
  }

  setGrades(shown) {
    this.address({ ...this.options, grades: shown ? "1" : undefined });
    this.live.again();
  }

  // What the server is asked to draw.
  view() {
    if (this.board) return { view: "board", grades: Boolean(this.options.grades), ...this.charts.view() };
    return this.tierView?.view ?? { view: "part" };
  }

  // What it has drawn: values and tables by name.
  take({ run, groups, agents, running, charts, frontier, ...tiers }) {
    if (run) this.takeRun(run[""]);
    if (charts) this.charts.update(charts[""]);
    if (frontier) this.charts.frontier.take(frontier[""]);
    if (run) this.charts?.curves.want(run[""].state_version);
    if (groups) this.groups = groups[""];
    if (agents) this.board.take(agents);
    if (running) this.running.take(running);
    this.tierView?.take(tiers);
  }

  takeRun(run) {
    this.run = run;
    this.show(true);
    document.title = `${run.progress} ${run.title} · streamer`;
    this.head.replaceChildren(...run.head.map((part) => made(part)));
    tick(this.head);
    if (this.gradesChoice) [this.gradesChoice.hidden, this.gradeMarks.hidden] = [run.own_grades, !run.graded];
    this.drawTiles();
    this.askBudget();
  }

  drawTiles() {
    this.tiles.replaceChildren(...(this.run?.tiles ?? []).map((part) => made(part)));
    if (this.words) this.tiles.children[COST]?.append(h("dd", { class: "more" }, this.words));
  }

  // A budget is this visitor's own, so it is asked for by itself, again when the run has changed.
  async askBudget() {
    const asked = JSON.stringify([this.budget, this.run?.digest]);
    if (asked === this.asked) return;
    this.asked = asked;
    const words = this.budget ? await budgetWords(this.id, this.budget) : null;
    if (asked !== this.asked) return;
    this.words = words;
    this.drawTiles();
  }

  body() {
    if (this.tab === "tiers") return [(this.tierView = new Tiers(() => this.live.again())).element];
    if (this.tab === "tasks") return [(this.taskView = new Tasks(this.id, { ...this.options }, (chosen) => this.address(chosen))).element];
    if (this.tab === "trials") return this.trialsBody();
    if (this.tab === "compare") return [(this.compareView = new Compare({ a: this.id, b: this.id, ...this.options }, (chosen) => this.address(chosen))).element];
    return this.boardBody();
  }

  trialsBody() {
    const { trial, file, ...rest } = this.options;
    const filter = (chosen) => this.address({ ...chosen, trial: this.options.trial, file: this.options.file });
    this.trialView = new Trials(this.id, rest, filter, (id) => {
      this.address({ ...this.options, trial: id, file: undefined }, true);
      this.openTrial();
    });
    if (trial) this.openTrial();
    return [this.trialView.element];
  }

  openTrial() {
    const change = (chosen) => this.address({ ...this.options, ...chosen });
    const closed = () => change({ trial: undefined, file: undefined });
    openTrial(this.id, this.options.trial, { file: this.options.file, change, closed });
  }

  address(chosen, push = false) {
    this.options = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined && value !== null));
    this.follow(this.tab)({ ...this.options, budget: this.budget }, push);
  }

  boardBody() {
    this.charts = new Charts(() => get(runPath(this.id, "/curves")), () => this.live.again());
    const paint = (label, row) => row.querySelector(".swatch")?.style.setProperty("--color", color(this.charts.indexOf(label)));
    this.board = new DrawnTable("Agents of this run", { paint });
    this.charts.told = () => this.board.paintAll();
    const budget = h("input", { type: "number", min: "0", step: "any", size: "8", value: this.budget, onchange: () => this.setBudget(budget) });
    const grades = h("input", { type: "checkbox", checked: Boolean(this.options.grades), onchange: () => this.setGrades(grades.checked) });
    this.gradesChoice = field("Grades", grades);
    this.gradeMarks = h("span", { class: "note" }, WORDS.grade_marks);
    return [card("Board", [this.gradesChoice, this.gradeMarks, field("Budget, $", budget)], this.board.element, this.board.notes), this.charts.element, this.running.element];
  }

  draw() {
    if (!this.run) this.drawGone("This run is gone: it was deleted, or Redis was emptied.");
    this.board?.paintAll();
    this.trialView?.update(this.groups);
    this.taskView?.asking.soon();
  }

  // Nothing is streamed of a run that is not there: the page says so, and waits for it.
  async ask(state) {
    try {
      await get(runPath(this.id));
    } catch (error) {
      if (error.status !== 404) return;
      state("live");
      this.run = null;
      this.drawGone(visible(error.message));
    }
  }

  // Whether there is anything below the head. The running trials say that themselves.
  show(shown) {
    for (const part of this.rest) if (part !== this.running.element) part.hidden = !shown;
  }

  drawGone(why) {
    this.show(false);
    this.tiles.replaceChildren();
    const next = h("p", { class: "note" }, h("a", { href: "#/" }, "All runs"), " · this page shows the run as soon as it appears.");
    this.head.replaceChildren(h("h1", {}, name(this.id)), h("p", { class: "error", role: "alert" }, why), next);
  }

  close() {
    for (const part of [this.live, this.charts, this.trialView, this.taskView, this.compareView]) part?.close();
    closeDrawer();
  }
}
