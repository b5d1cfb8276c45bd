// All runs, the latest first, as they change.

import { card, h, name, visible } from "./dom.js";
import { accuracy, ago, count, usd } from "./format.js";
import { Live } from "./live.js";
import { Table } from "./table.js";

export class Runs {
  constructor(state) {
    this.runs = new Map();
    this.table = new Table(COLUMNS, {
      caption: "Runs",
      key: (run) => run.run_id,
      sort: { id: "last", descending: true },
      empty: "No runs yet. Publish some events, with a worker running.",
    });
    this.element = card("Runs", [], this.table.element);
    this.live = new Live("/api/updates", {
      reset: () => this.runs.clear(),
      put: (run) => this.runs.set(run.run_id, run),
      remove: (gone) => this.runs.delete(gone.run_id),
      told: () => this.table.update([...this.runs.values()]),
      state,
    });
  }

  close() {
    this.live.close();
  }
}

export const runLink = (run, rest = "") => `#/run/${encodeURIComponent(run)}${rest}`;

export function progress(run) {
  const { done, planned } = run.progress;
  if (planned === null) return count(done);
  return h("span", {}, `${count(done)} / ${count(planned)}`, bar(planned ? done / planned : 0));
}

const bar = (share) => h("div", { class: "progress", "aria-hidden": "true" }, h("i", { "--share": Math.max(0, Math.min(1, share)) }));

// The word comes from the API; how the harness called the end is its title.
export function stateBadge(run) {
  const title = run.status === null ? null : `the harness says: ${visible(run.status)}`;
  return h("span", { class: `badge state-${run.state}`, title }, run.state);
}

const COLUMNS = [
  {
    id: "run",
    title: "Run",
    value: (run) => run.display_name ?? run.run_id,
    cell: (run) => h("div", {}, h("a", { href: runLink(run.run_id) }, name(run.display_name ?? run.run_id)), run.display_name ? h("div", { class: "note" }, name(run.run_id)) : null),
  },
  { id: "state", title: "State", value: (run) => run.state, cell: stateBadge },
  { id: "progress", title: "Progress", number: true, high: true, value: (run) => run.progress.done, cell: progress },
  { id: "accuracy", title: "All trials", hint: "Accuracy over all trials of the run, whatever the agent", number: true, high: true, value: (run) => run.accuracy, cell: accuracy },
  { id: "cost", title: "Cost", number: true, high: true, value: (run) => (run.total_cost === null ? null : Number(run.total_cost)), cell: (run) => usd(run.total_cost) },
  { id: "agents", title: "Agents", number: true, high: true, value: (run) => run.agent_models, cell: (run) => count(run.agent_models) },
  { id: "tiers", title: "Tiers", number: true, high: true, value: (run) => run.tiers, cell: (run) => count(run.tiers) },
  { id: "benchmark", title: "Benchmark", value: (run) => run.benchmark, cell: (run) => (run.benchmark === null ? "–" : name(run.benchmark)) },
  { id: "last", title: "Last event", high: true, value: (run) => run.last_event_at, cell: (run) => ago(run.last_event_at) },
];
