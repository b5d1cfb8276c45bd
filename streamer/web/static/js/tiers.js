// The tiers of a run: grade, uplift, spread; pooled over the agents, or each agent within each tier.

import { BOARDS, WORDS } from "./boards.js";
import { columnsOf } from "./cells.js";
import { card, h, name, svg } from "./dom.js";
import { segments, select } from "./controls.js";
import { UNKNOWN, number, ratio, share, usd } from "./format.js";
import { withNamed } from "./named.js";
import { Table } from "./table.js";
import { footnotes } from "./uncertainty.js";

const SPREADS = [["pass_rate", "Pass rate"], ["composite_score", "Composite score"], ["impl_rate", "Judge's score"], ["cost_usd", "Cost per trial"], ["duration_seconds", "Duration"]];

export class Tiers {
  constructor() {
    this.within = false;
    this.spread = "pass_rate";
    this.table = new Table([], {
      caption: "Tiers of this run",
      primary: "pass_rate",
      key: (tier) => `${tier.tier}\n${tier.agent_model ?? ""}`,
      sort: { id: "tier", descending: false },
      empty: "This run has no tiers.",
    });
    this.facts = h("dl", { class: "facts line" });
    this.choice = select("Spread of", SPREADS, this.spread, (value) => this.again(() => (this.spread = value)));
    const grouping = segments("Rows", [["pooled", "Pooled"], ["within", "By agent"]], "pooled", (value) => this.again(() => (this.within = value === "within")));
    const key = h("p", { class: "note body" }, "Spread: line from least to greatest, band one standard deviation around the mean (dot), bar at the median.");
    this.notes = h("div", { class: "note notes" });
    const marks = h("span", { class: "note" }, WORDS.grade_marks);
    this.element = card("Tiers", [this.choice.element, grouping, marks], this.table.element, this.notes, this.facts, key);
  }

  again(change) {
    change();
    this.table.elements.clear();
    this.table.body.replaceChildren();
    this.update(this.tiers ?? [], this.run);
  }

  update(tiers, run) {
    this.tiers = tiers;
    this.run = run;
    this.choice.offer(SPREADS.filter(([id]) => tiers.some((tier) => tier.statistics[id]?.count)));
    this.spread = this.choice.select.value || this.spread;
    const rows = tiers.filter((tier) => (tier.agent_model !== null) === this.within);
    const highest = Math.max(0, ...rows.map((tier) => this.stats(tier).max).map(number).filter(Number.isFinite));
    const limited = !["cost_usd", "duration_seconds"].includes(this.spread);
    this.top = limited ? 1 : highest || 1;
    this.table.setColumns(this.columns(rows));
    if (this.shownTop !== this.top) this.table.elements.clear();
    if (this.shownTop !== this.top) this.table.body.replaceChildren();
    this.shownTop = this.top;
    this.table.update(rows);
    this.notes.replaceChildren(...footnotes(rows).map((line) => h("p", {}, line)));
    this.facts.replaceChildren(...crossTier(run?.cross_tier));
  }

  stats(tier) {
    return tier.statistics[this.spread] ?? {};
  }

  columns(tiers) {
    return columnsOf(withNamed(BOARDS.tiers, tiers), tiers, {
      tier: (t) => [name(t.tier), t.tier === t.baseline_tier ? h("span", { class: "note" }, " baseline") : null],
      spread: (t) => spread(this.stats(t), this.top),
      deviation: (t) => share(this.stats(t).std_dev ?? null),
    });
  }
}

function spread(stats, top) {
  const [low, high, mean, median, deviation] = ["min", "max", "mean", "median", "std_dev"].map((field) => number(stats[field]));
  if (low === null || high === null || ![low, high].every(Number.isFinite)) return UNKNOWN;
  const x = (value) => 4 + 162 * Math.max(0, Math.min(1, value / top));
  const label = `from ${ratio(low)} to ${ratio(high)}, median ${ratio(median)}, mean ${ratio(mean)}, standard deviation ${ratio(deviation)}`;
  const band = deviation !== null && Number.isFinite(mean) ? svg("rect", { class: "band", x: x(mean - deviation), width: Math.max(1, x(mean + deviation) - x(mean - deviation)), y: 5, height: 12, rx: 2 }) : null;
  return svg(
    "svg",
    { class: "spread", viewBox: "0 0 170 22", role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("line", { class: "floor", x1: 4, x2: 166, y1: 21, y2: 21 }),
    svg("line", { class: "range", x1: x(low), x2: x(high), y1: 11, y2: 11 }),
    svg("line", { class: "range", x1: x(low), x2: x(low), y1: 7, y2: 15 }),
    svg("line", { class: "range", x1: x(high), x2: x(high), y1: 7, y2: 15 }),
    band,
    median === null ? null : svg("line", { class: "median", x1: x(median), x2: x(median), y1: 3, y2: 19 }),
    Number.isFinite(mean) ? svg("circle", { class: "mean", cx: x(mean), cy: 11, r: 3 }) : null,
  );
}

function crossTier(found) {
  if (!found) return [];
  const facts = [
    ["Variance of pass rates", ratio(found.pass_rate_variance)],
    ["Variance of judge's scores", ratio(found.impl_rate_variance)],
    ["Variance of costs", finiteRatio(found.cost_variance)],
    ["Dearest − cheapest median cost", usd(found.cost_delta)],
    ["Lowest cost of pass", found.frontier_tier === null ? usd(found.frontier_cost_of_pass) : [usd(found.frontier_cost_of_pass), " in ", name(found.frontier_tier)]],
  ];
  return facts.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, ...[value].flat())));
}

const finiteRatio = (value) => (typeof value === "number" && value > 0 && value < 0.001 ? value.toExponential(2) : ratio(value));
