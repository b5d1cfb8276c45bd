// One trial with everything that is known of it, and why it failed or fell back.

import { get, runPath } from "./api.js";
import { outcome } from "./cells.js";
import { h, name, visible } from "./dom.js";
import { UNKNOWN, count, duration, grade, moment, number, percent, ratio, times, usd } from "./format.js";
import { Table } from "./table.js";

const dialog = document.getElementById("drawer");
const MOST_BENCHMARKS = 200;

dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

// judged(label): whether trials of this agent:model get a judge's score
export async function openTrial(run, id, judged = () => false) {
  dialog.replaceChildren(head("Trial"), h("div", { class: "content" }, h("p", { class: "note" }, "Loading…")));
  if (!dialog.open) dialog.showModal();
  try {
    const trial = await get(runPath(run, `/trials/${id}`));
    dialog.replaceChildren(head(trial.task_id, wordOf(trial)), contents(trial, judged(trial.agent_model)));
  } catch (error) {
    dialog.querySelector(".content").replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

export const closeDrawer = () => dialog.close();

function head(title, word = null) {
  const close = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close");
  return h("header", {}, h("div", {}, h("h2", { id: "drawer-title" }, name(title)), word ? outcome(word) : null), close);
}

function wordOf(trial) {
  if (trial.formulacode?.fallback_to_baseline) return "fell_back";
  if (trial.success) return "passed";
  return trial.resolved === null && trial.formulacode === null ? "no_verdict" : "failed";
}

function contents(trial, judged) {
  const code = trial.formulacode;
  return h(
    "div",
    { class: "content" },
    why(trial, judged),
    facts("Where", [
      ["Agent : model", name(trial.agent_model)],
      ["Attempt", count(trial.attempt)],
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
    h("details", {}, h("summary", {}, "Payload as published"), h("pre", {}, visibleLines(JSON.stringify(trial, null, 2)))),
  );
}

// Line feeds of our own layout stay; whatever else would act is written out.
const visibleLines = (text) => text.split("\n").map(visible).join("\n");

function reasons(trial, judged) {
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
  if (trial.failure_mode && trial.failure_mode !== "unset") found.push(`The harness says: ${visible(trial.failure_mode)}.`);
  if (trial.resolved === false && !code) found.push("The harness says that the task is not resolved.");
  if (trial.resolved === null && !code) found.push("The harness gave no verdict; that counts as unresolved.");
  if (judged && trial.composite_score === null) found.push("The judge's score is still awaited.");
  return found;
}

function why(trial, judged) {
  const word = wordOf(trial);
  const titles = {
    passed: "It passed.",
    failed: "Why it failed",
    fell_back: "Why it fell back: it counts as if the agent had changed nothing",
    no_verdict: "Why it counts as unresolved",
  };
  const mood = { passed: "good", failed: "bad", fell_back: "warn", no_verdict: "" }[word];
  const list = reasons(trial, judged);
  const body = list.length ? h("ul", {}, ...list.map((reason) => h("li", {}, reason))) : null;
  return h("section", { class: `why ${mood}` }, h("h3", {}, titles[word]), body);
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
  const table = new Table(BENCHMARK_COLUMNS, { caption: "Benchmarks of this trial", key: ([key]) => key, sort: { id: "advantage", descending: false } });
  table.update(benchmarks.slice(0, MOST_BENCHMARKS));
  const more = benchmarks.length - MOST_BENCHMARKS + code.benchmarks_left_out;
  const rest = more > 0 ? h("p", { class: "note" }, `${count(more)} more are in the payload or were left out of it.`) : null;
  return [...found, h("section", {}, h("h3", {}, "Benchmarks"), table.element, rest)];
}

const BENCHMARK_COLUMNS = [
  { id: "name", title: "Benchmark", value: ([key]) => key, cell: ([key]) => name(key) },
  { id: "agent", title: "Agent", number: true, high: true, value: ([, b]) => number(b["agent/nop"]), cell: ([, b]) => [times(b["agent/nop"]), b.fallback_to_baseline ? " reset" : ""] },
  { id: "oracle", title: "Oracle", number: true, high: true, value: ([, b]) => number(b["oracle/nop"]), cell: ([, b]) => times(b["oracle/nop"]) },
  { id: "advantage", title: "Advantage", number: true, high: true, value: ([, b]) => number(b.advantage), cell: ([, b]) => ratio(b.advantage) },
];
