// One trial with everything that is known of it, and why it failed or fell back.

import { get, runPath, taskPage } from "./api.js";
import { Files } from "./files.js";
import { asWritten, written } from "./said.js";
import { count, DrawnTable, duration, grade, h, moment, name, number, outcome, percent, ratio, times, UNKNOWN, usd, visible, WORDS } from "./shared.js";

const dialog = document.getElementById("drawer");
const MOST_BENCHMARKS = 200;

let closed = () => {};
let latest = null; // of the trials that were opened

dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
dialog.addEventListener("close", () => dialog.open || closed()); // another trial may have opened meanwhile

// awaited(label): whether trials of this agent:model still wait for their judge (R13)
// options: {file, change(options), closed()}: which file is open, so that the address can follow
export async function openTrial(run, id, awaited, options) {
  const mine = (latest = {});
  closed = options.closed;
  dialog.replaceChildren(head("Trial"), h("div", { class: "content" }, h("p", { class: "note" }, "Loading…")));
  if (!dialog.open) dialog.showModal();
  try {
    const [trial, { problem = null, ...said }] = await Promise.all([get(runPath(run, `/trials/${id}`)), get(runPath(run, `/trials/${id}/event`)).catch((error) => ({ problem: error.message }))]);
    if (latest !== mine) return;
    const event = problem === null ? said : null;
    const files = event && new Files(run, id, event.artifacts, (file) => options.change({ file }));
    dialog.replaceChildren(head(trial.task_id, wordOf(trial)), contents(run, trial, awaited(trial.agent_model), event, files, problem));
    if (files && options.file) files.open(Number(options.file));
  } catch (error) {
    if (latest === mine) dialog.querySelector(".content").replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

// Without telling the address: it has changed already.
export function closeDrawer() {
  closed = () => {};
  dialog.close();
}

function head(title, word = null) {
  const close = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close");
  return h("header", {}, h("div", {}, h("h2", { id: "drawer-title" }, name(title)), word ? outcome(word) : null), close);
}

function wordOf(trial) {
  if (trial.formulacode?.fallback_to_baseline) return "fell_back";
  if (trial.success) return "passed";
  return trial.resolved === null && trial.formulacode === null ? "no_verdict" : "failed";
}

// problem: why nothing is known of the event; null: it is
function contents(run, trial, awaited, event, files, problem) {
  const code = trial.formulacode;
  return h(
    "div",
    { class: "content" },
    why(trial, awaited, event),
    problem === null ? null : h("p", { class: "error", role: "alert" }, visible(problem)),
    files?.element ?? null,
    facts("Where", [
      ["Task", h("a", { href: taskPage(run, trial.task_id) }, "over all runs")],
      ["Agent : model", name(trial.agent_model)],
      ["Attempt", count(trial.attempt)],
      ["Name", event?.trial_name ? name(event.trial_name) : null],
      ["Started", event?.started_at ? moment(event.started_at) : null],
      ["Ended", event?.finished_at ? moment(event.finished_at) : null],
      ...Object.entries(event?.labels ?? {}).map(([key, value]) => [name(key), name(value)]),
      ["Tier", trial.tier === null ? null : name(trial.tier)],
      ["Subtest", trial.subtest === null ? null : name(trial.subtest)],
      ["Shard", trial.shard ? name(trial.shard) : null],
      ["Position", trial.agent_index === null ? null : count(trial.agent_index)],
    ]),
    facts("Score", [
      [trial.verdict_source === "derived" ? "Verdict, derived from tests and snapshot" : "Harness's verdict", trial.resolved === null ? "none" : trial.resolved ? "resolved" : "not resolved"],
      ["Pass rate", percent(trial.pass_rate)],
      ["Judge's score", trial.impl_rate === null ? null : ratio(trial.impl_rate)],
      ["Composite", trial.composite_score === null ? null : [ratio(trial.composite_score), " ", grade(trial.grade)]],
    ]),
    facts("Effort", [
      ["Cost", trial.cost_usd === null ? UNKNOWN : `${usd(trial.cost_usd)} (${visible(trial.cost_source)})`],
      ["Cost of pass", usd(trial.cost_of_pass)],
      ["Duration", duration(trial.duration_seconds)],
      ["Input tokens", count(trial.input_tokens)],
      ["Output tokens", count(trial.output_tokens)],
      ["Interactions", count(trial.trajectory_length)],
      ["Last event", moment(trial.last_event_at)],
    ]),
    ...(code ? formulacode(code) : []),
    h("details", {}, h("summary", {}, "Payload as published"), h("pre", {}, asWritten(JSON.stringify(trial, null, 2)))),
  );
}

function reasons(trial, awaited) {
  const found = [];
  const code = trial.formulacode;
  if (code?.pytest_failed) {
    const tests = code.pytest_summary;
    found.push(tests ? `The test suite failed: ${count(tests.failed_total)} failed of ${count(tests.total)} (${visible(tests.status)}).` : "The test suite failed.");
  }
  if (code?.snapshot_failed) {
    const shots = code.snapshot_summary;
    found.push(shots ? `Snapshots differ: ${count(shots.failed)} of ${count(shots.total)} (${visible(shots.status)}).` : "Snapshots differ.");
  }
  if (code?.claimed) found.push("Its advantages are only claimed by its log, not measured.");
  const failed = trial.failure_mode !== null && !WORDS.no_failure.includes(trial.failure_mode);
  if (failed) found.push(`The harness says: ${visible(trial.failure_mode)}.`);
  if (trial.resolved === false && !code) found.push("The harness says that the task is not resolved.");
  if (trial.resolved === null && !code) found.push(trial.success === null ? "The harness gave no verdict." : "The harness gave no verdict; that counts as unresolved.");
  if (awaited && !failed && trial.composite_score === null) found.push("The judge's score is still awaited.");
  return found;
}

function why(trial, awaited, event) {
  const word = wordOf(trial);
  const titles = {
    passed: "It passed.",
    failed: "Why it failed",
    fell_back: "Why it fell back: it counts as if the agent had changed nothing",
    no_verdict: trial.success === null ? "It has no verdict" : "Why it counts as unresolved",
  };
  const mood = { passed: "good", failed: "bad", fell_back: "warn", no_verdict: "" }[word];
  const list = reasons(trial, awaited);
  const message = event?.message ? written(event.message) : null;
  const body = list.length ? h("ul", {}, ...list.map((reason) => h("li", {}, reason))) : null;
  return h("section", { class: `why ${mood}` }, h("h3", {}, titles[word]), body, message);
}

function facts(title, pairs) {
  const shown = pairs.filter(([, value]) => value !== null);
  return h("section", {}, h("h3", {}, title), h("dl", { class: "facts" }, ...shown.flatMap(([term, value]) => [h("dt", {}, term), h("dd", {}, ...[value].flat())])));
}

function formulacode(code) {
  const benchmarks = Object.entries(code.per_benchmark_speedups ?? {});
  const found = [
    facts("FormulaCode", [
      ["Speedup", times(code.task_speedup)],
      ["Advantage", ratio(code.agent_advantage)],
      ["by module", ratio(code.agent_advantage_level1)],
      ["by class", ratio(code.agent_advantage_level2)],
      ["by function", ratio(code.agent_advantage_level3)],
      ["Benchmarks", `${count(code.num_valid_benchmarks)} valid of ${count(code.num_benchmarks)}`],
    ]),
  ];
  if (!benchmarks.length) return found;
  const table = new DrawnTable("Benchmarks of this trial");
  const rows = Object.fromEntries(benchmarks.slice(0, MOST_BENCHMARKS).map(([key, one]) => [key, ["tr", {}, ["th", { role: "rowheader" }, visible(key)], ...BENCHMARK.map((column) => measured(column, one))]]));
  const heads = [["th", { scope: "col", role: "columnheader", "data-id": "name" }, "Benchmark"], ...BENCHMARK.map(({ id, title }) => ["th", { scope: "col", role: "columnheader", class: "number", "data-id": id, "data-first": "descending", "aria-sort": id === "advantage" ? "ascending" : null }, ["button", { type: "button" }, title]])];
  table.take({ "": { heads, order: Object.keys(rows), notes: [], empty: "" }, ...rows });
  const more = benchmarks.length - MOST_BENCHMARKS + code.benchmarks_left_out;
  const rest = more > 0 ? h("p", { class: "note" }, `${count(more)} more are in the payload or were left out of it.`) : null;
  return [...found, h("section", {}, h("h3", {}, "Benchmarks"), table.element, rest)];
}

const BENCHMARK = [
  { id: "agent", title: "Agent", of: "agent/nop", write: times },
  { id: "oracle", title: "Oracle", of: "oracle/nop", write: times },
  { id: "advantage", title: "Advantage", of: "advantage", write: ratio },
];

const measured = ({ id, title, of, write }, one) => ["td", { class: "number", role: "cell", "data-label": title, "data-sort": number(one[of]) }, `${write(one[of])}${id === "agent" && one.fallback_to_baseline ? " reset" : ""}`];
