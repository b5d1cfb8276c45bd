// One run: its head, and what is chosen of board, tiers, trials and comparison.

import { Board } from "./board.js";
import { WORDS } from "./boards.js";
import { progress, stateBadge, whyIncomplete } from "./cells.js";
import { Charts } from "./charts.js";
import { Compare } from "./compare.js";
import { closeDrawer, openTrial } from "./drawer.js";
import { card, field, h, name, visible } from "./dom.js";
import { UNKNOWN, ago, count, counted, percent, usd, withoutInfrastructure } from "./format.js";
import { Live } from "./live.js";
import { Outlook, budgetWords, costWords, endWords } from "./outlook.js";
import { runLink } from "./runs.js";
import { get, runPath } from "./api.js";
import { Tasks } from "./tasks.js";
import { Tiers } from "./tiers.js";
import { Trials } from "./trials.js";

const TABS = { board: "Board", tiers: "Tiers", tasks: "Tasks", trials: "Trials", compare: "Compare" };
// Of pass@k that of the greatest k up to this.
const MOST_ATTEMPTS = 5;

export class Run {
  // options: of the address; follow(tab)(options, push): so that the address can follow
  constructor(run, tab, options, follow, state) {
    const { budget = "", ...rest } = options;
    this.budget = budget;
    this.options = rest;
    this.follow = follow;
    this.id = run;
    this.tab = TABS[tab] ? tab : "board";
    this.agents = new Map();
    this.tiers = new Map();
    this.summary = null;
    this.head = h("div", { class: "head" }, h("h1", {}, name(run)));
    this.tiles = h("dl", { class: "tiles" });
    this.outlook = new Outlook(run, () => this.foretold(), this.budget);
    this.element = h("div", { class: "run" });
    this.nav = h("nav", { class: "tabs", "aria-label": "Parts of the run" });
    this.drawTabs();
    this.rest = [this.tiles, this.nav, ...this.body()];
    this.parts = [this.head, ...this.rest];
    this.live = new Live(runPath(run, "/updates"), {
      reset: () => this.reset(),
      put: (summary) => this.put(summary),
      remove: (gone) => this.remove(gone),
      told: () => this.draw(),
      refused: () => this.ask(state),
      view: () => (this.board ? { view: "board", grades: this.options.grades ? "true" : "false" } : {}),
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
    this.outlook.setBudget(this.budget);
  }

  setGrades(shown) {
    this.address({ ...this.options, grades: shown ? "1" : undefined });
    this.live.again();
  }

  // What the server has drawn, by table.
  take({ board, agents }) {
    if (board) [this.gradesChoice.hidden, this.gradeMarks.hidden] = [board[""].own_grades, !board[""].graded];
    if (agents) this.board.table.take(agents);
  }

  body() {
    if (this.tab === "tiers") return [(this.tierView = new Tiers()).element];
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
    openTrial(this.id, this.options.trial, (label) => this.awaited(label), { file: this.options.file, change, closed });
  }

  // A judge is expected, and its score may still come (R13).
  awaited(label) {
    const agent = this.agents.get(label);
    return agent?.grade_basis === "composite_median" && agent.grade_provisional;
  }

  address(chosen, push = false) {
    this.options = Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== undefined && value !== null));
    this.follow(this.tab)({ ...this.options, budget: this.budget }, push);
  }

  boardBody() {
    this.charts = new Charts(this.id);
    this.board = new Board((label) => this.charts.indexOf(label));
    this.charts.told = () => this.board.paint();
    const budget = h("input", { type: "number", min: "0", step: "any", size: "8", value: this.budget, onchange: () => this.setBudget(budget) });
    const grades = h("input", { type: "checkbox", checked: Boolean(this.options.grades), onchange: () => this.setGrades(grades.checked) });
    this.gradesChoice = field("Grades", grades);
    this.gradeMarks = h("span", { class: "note" }, WORDS.grade_marks);
    return [card("Board", [this.gradesChoice, this.gradeMarks, field("Budget, $", budget)], this.board.element), this.charts.element, this.outlook.element];
  }

  // A snapshot begins: what it does not name is gone. The chart asks what happened meanwhile.
  reset() {
    this.summary = null;
    this.agents.clear();
    this.tiers.clear();
  }

  put(summary) {
    if (summary.type === "run_summary") this.summary = summary;
    else if (summary.type === "agent_model_summary") this.agents.set(summary.agent_model, summary);
    else this.tiers.set(`${summary.tier}\n${summary.agent_model ?? ""}`, summary);
  }

  remove(gone) {
    if (gone.type === "run_summary") this.summary = null;
    else if (gone.type === "agent_model_summary") this.agents.delete(gone.agent_model);
    else this.tiers.delete(`${gone.tier}\n${gone.agent_model ?? ""}`);
  }

  draw() {
    const { agents, tiers } = this.groups();
    this.charts?.update(agents, tiers, this.summary?.primary_metric, this.summary?.state_version);
    if (this.summary) this.outlook.want(this.summary.digest);
    this.drawHead();
    this.board?.paint();
    this.tierView?.update(tiers, this.summary);
    this.trialView?.update(agents, tiers);
    this.taskView?.update();
  }

  // The groups, whether their run has ended, and whether they show a grade: without tiers and judge only if asked.
  groups() {
    const over = (this.summary?.status ?? null) !== null;
    const own = this.tiers.size > 0 || [...this.agents.values()].some((agent) => agent.grade_basis === "composite_median");
    const graded = own || Boolean(this.options.grades);
    const [agents, tiers] = [this.agents, this.tiers].map((groups) => [...groups.values()].map((group) => ({ ...group, over, graded })));
    return { agents, tiers };
  }

  // The outlook is there: it is drawn where it belongs.
  foretold() {
    this.drawHead();
  }

  // Nothing is streamed of a run that is not there: the page says so, and waits for it.
  async ask(state) {
    try {
      await get(runPath(this.id));
    } catch (error) {
      if (error.status !== 404) return;
      state("live");
      this.summary = null;
      this.drawGone(visible(error.message));
    }
  }

  // Whether there is anything below the head. The running trials say that themselves.
  show(shown) {
    for (const part of this.rest) if (part !== this.outlook.element) part.hidden = !shown;
  }

  drawGone(why) {
    this.show(false);
    const next = h("p", { class: "note" }, h("a", { href: "#/" }, "All runs"), " · this page shows the run as soon as it is there.");
    this.head.replaceChildren(h("h1", {}, name(this.id)), h("p", { class: "error", role: "alert" }, why), next);
  }

  drawHead() {
    const run = this.summary;
    if (!run) {
      this.drawGone("This run is gone: it was deleted, or Redis was emptied.");
      this.tiles.replaceChildren();
      return;
    }
    this.show(true);
    document.title = `${run.display_name ?? run.run_id} · streamer`;
    const facts = [["", run.run_id], ["", run.harness], ["", run.benchmark], ...Object.entries(run.labels)].filter(([, value]) => value);
    this.head.replaceChildren(
      h("div", { class: "line" }, h("h1", {}, name(run.display_name ?? run.run_id)), stateBadge(run.state, run.status), run.provisional ? h("span", { class: "badge warn" }, "provisional") : null),
      h("div", { class: "line note" }, ...facts.map(([key, value]) => h("span", {}, name(key ? `${key}=${value}` : value))), h("span", {}, "last event: ", ago(run.last_event_at))),
      ...remarks(run).map((words) => h("p", { class: "note" }, words)),
    );
    this.tiles.replaceChildren(...tiles(run, this.outlook));
  }

  close() {
    this.live.close();
    this.outlook.close();
    this.charts?.close();
    this.trialView?.close();
    this.taskView?.close();
    this.compareView?.close();
    closeDrawer();
  }
}

// Forecasts rest on event time, so that a replay tells the same.
function tiles(run, { found: outlook, refused }) {
  const { done, planned, plan_complete: complete } = run.progress;
  const counts = planned === null ? `${complete === false ? whyIncomplete(run.progress) : WORDS.no_plan}: counts only` : `${percent(planned ? Math.min(1, done / planned) : 1)} of the plan`;
  const running = run.in_flight && run.status === null ? `${count(run.in_flight)} running` : null;
  const rate = outlook?.usd_per_hour == null ? null : `${usd(outlook.usd_per_hour)} per hour`;
  const pass = Object.entries(run.pass_at_k ?? {}).filter(([k, found]) => found.value !== null && Number(k) <= MOST_ATTEMPTS).at(-1);
  return [
    tile("Progress", progress(run.progress), [counts, running, endWords(outlook)]),
    tile(run.agent_models > 1 ? "All agents" : "Accuracy", percent(run.accuracy), [run.verdict_trials === 0 ? "no verdicts" : `${count(run.resolved)} resolved of ${count(run.verdict_trials ?? run.trials)}`, withoutInfrastructure(run)]),
    tile("Cost", usd(run.total_cost), [estimatedWords(run), rate, costWords(outlook), refused ?? budgetWords(outlook)]),
    run.pass_at_k === null ? tile("pass@k", UNKNOWN, [run.verdict_trials === 0 ? "no verdicts" : run.tiers ? "within tiers" : "by agent only"]) : tile(pass ? `pass@${pass[0]}` : "pass@k", pass ? percent(pass[1].value) : UNKNOWN, [pass ? `${counted(pass[1].tasks_covered, "task")}${pass[1].partial ? ", not all planned" : ""}` : null]),
    tile("Tokens", count(run.tokens.output), [`out; ${count(run.tokens.input)} in`]),
  ];
}

// What is wrong with the results, a line each.
const remarks = (run) => Object.entries(WORDS.remarks).filter(([mark]) => run[mark]).map(([mark, [noun, words]]) => `${counted(run[mark], noun)} ${words}`);

// How much of the cost is tokens x price, as the harness reported none; null: nothing.
const estimatedWords = ({ total_cost: cost, estimated_cost: part }) => (part ? (part === cost ? "estimated" : `${usd(part)} of it estimated`) : null);

const tile = (title, value, more) => h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, value), ...more.filter(Boolean).map((line) => h("dd", { class: "more" }, line)));
