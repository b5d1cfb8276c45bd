// The leaderboard of each benchmark: agents with their finished runs pooled, what is left out below.

import { drawn } from "./api.js";
import { card, DrawnTable, field, h, made, select } from "./shared.js";
import { Asking } from "./trouble.js";

const REFRESH_MS = 5000;
const MIXED = "mixed";

export class Leaders {
  // chosen: {metric, benchmark, label, all_benchmarks}; change(chosen): so that the address can follow
  constructor(chosen, change, state) {
    this.state = state;
    this.chosen = {
      metric: chosen.metric || "pass_rate",
      benchmark: chosen.benchmark ?? "",
      label: chosen.label ?? "",
      all_benchmarks: chosen.all_benchmarks === "true" ? "true" : "",
    };
    const set = (what) => {
      Object.assign(this.chosen, what);
      change(this.chosen);
      this.asking.ask();
    };
    this.boards = new Map();
    this.metric = select("By", [], "", (metric) => set({ metric }));
    this.benchmark = select("Benchmark", [["", "one board each"]], "", (value) => set(value === MIXED ? { benchmark: "", all_benchmarks: "true" } : { benchmark: value, all_benchmarks: "" }));
    const label = h("input", { type: "search", value: this.chosen.label, placeholder: "KEY=VALUE", pattern: "[^=]+=.*", title: "KEY=VALUE", onchange: () => label.reportValidity() && set({ label: label.value }) });
    this.file = h("a", { class: "plain", download: "leaderboards.html" }, "HTML file");
    this.list = h("div", { class: "boards" }, h("p", { class: "empty" }, "Reading…"));
    this.element = card("Leaderboard", [this.metric.element, this.benchmark.element, field("Label", label), this.file], this.list);
    this.asking = new Asking(this.element, (signal) => this.load(signal), () => state("lost"));
    this.asking.ask();
    this.timer = setInterval(() => document.hidden || this.asking.pending || this.asking.ask(), REFRESH_MS);
  }

  // What the server offers; which of it is chosen follows the address.
  offer({ metrics, benchmarks }) {
    const { metric, benchmark, all_benchmarks: mixed } = this.chosen;
    this.metric.offer(metrics);
    this.metric.select.value = metric;
    const asked = benchmark && !benchmarks.includes(benchmark) ? [benchmark] : [];
    this.benchmark.offer([["", "one board each"], [MIXED, "all, mixed"], ...[...asked, ...benchmarks].map((one) => [one, one])]);
    this.benchmark.select.value = mixed ? MIXED : benchmark;
  }

  async load(signal) {
    this.file.href = `/api/leaderboards.html?${new URLSearchParams(Object.entries(this.chosen).filter(([, value]) => value))}`;
    const found = await drawn("/api/leaderboards", this.chosen, signal);
    this.offer(found);
    this.show(found.boards);
    this.state("live");
  }

  // A table for each board; one that was there before stays the same element.
  show(boards) {
    const before = this.boards;
    this.boards = new Map(boards.map((board) => [board.key, before.get(board.key) ?? new Board(board)]));
    for (const board of boards) this.boards.get(board.key).table.take(board.table);
    const elements = [...this.boards.values()].map((board) => board.element);
    if (elements.length === 0) elements.push(h("p", { class: "empty" }, "No agent is on this board."));
    const same = elements.length === this.list.children.length && elements.every((element, at) => element === this.list.children[at]);
    if (!same) this.list.replaceChildren(...elements);
  }

  close() {
    clearInterval(this.timer);
    this.asking.close();
  }
}

class Board {
  constructor({ caption, title }) {
    this.table = new DrawnTable(caption);
    this.table.notes.className = "note body";
    this.element = h("section", { class: "board" }, h("h3", {}, made(title)), this.table.element, this.table.notes);
  }
}
