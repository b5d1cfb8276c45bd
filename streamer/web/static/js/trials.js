// The trials of a run, a page at a time; the server filters and sorts. What is chosen stands in the address.

import { drawn, runPath } from "./api.js";
import { Failures } from "./failures.js";
import { card, DrawnTable, field, h, name, offer, Pager, select, WORDS } from "./shared.js";
import { Asking } from "./trouble.js";

const PAGE = 50;
const KEPT = ["search", "outcome", "agent", "tier", "task", "failure_mode", "kind", "sort", "descending", "offset"];
// Filters without a control of their own: said above the list, and taken away there.
const SAID = { task: "task", failure_mode: "failure", kind: "message" };

export class Trials {
  // options: of the address; change(options): so that it can follow; open(id): show a trial
  constructor(run, options, change, open) {
    this.run = run;
    this.change = change;
    this.open = open;
    this.query = { sort: "latest", ...kept(options), limit: PAGE, offset: Number(options.offset) || 0, descending: options.descending === "true" };
    this.table = new DrawnTable("Trials of this run", { onsort: (sort, descending) => this.choose({ sort, descending, offset: 0 }), onopen: (id) => this.open(id) });
    this.pager = new Pager(PAGE, (offset) => this.choose({ offset }));
    this.pager.said.textContent = "Loading…";
    this.agent = h("select", { onchange: () => this.choose({ agent: this.agent.value, offset: 0 }) });
    this.tier = h("select", { onchange: () => this.choose({ tier: this.tier.value, offset: 0 }) });
    this.tierField = field("Tier", this.tier);
    const search = h("input", { type: "search", placeholder: "task, agent, failure", value: this.query.search ?? "", oninput: () => this.later(search.value) });
    const outcomes = [["", "all"], ...Object.entries(WORDS.outcomes)];
    const result = select("Outcome", outcomes, this.query.outcome ?? "", (value) => this.choose({ outcome: value, offset: 0 }));
    this.said = h("span", { class: "chips" });
    const controls = h("div", { class: "controls" }, field("Search", search), result.element, field("Agent", this.agent), this.tierField, this.said);
    const files = ["csv", "parquet"].map((ending) => h("a", { class: "plain", href: runPath(run, `/trials.${ending}`), download: true }, ending === "csv" ? "CSV" : "Parquet"));
    const downloads = h("span", { class: "downloads", role: "group", "aria-label": "All trials as a file" }, ...files);
    const list = card("Trials", [controls, downloads], this.table.element, this.pager.element);
    this.failures = new Failures(run, (mode, kind) => this.choose({ failure_mode: mode ?? "", kind, offset: 0 }));
    this.asking = new Asking(list, (signal) => this.load(signal), () => this.page || (this.pager.said.textContent = ""));
    this.element = h("div", { class: "stack" }, this.failures.element, list);
    this.offered = [[], []];
    this.offer();
    this.asking.ask();
  }

  later(search) {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.choose({ search, offset: 0 }), 250);
  }

  update({ agents, tiers }) {
    this.offered = [agents, tiers];
    this.offer();
    this.asking.soon();
    this.failures.asking.soon();
  }

  // What is chosen is offered too, whether or not it is known yet.
  offer() {
    const [agents, tiers] = this.offered;
    for (const [element, known, chosen] of [[this.agent, agents, this.query.agent], [this.tier, tiers, this.query.tier]]) {
      const all = chosen && !known.includes(chosen) ? [...known, chosen] : known;
      offer(element, [["", "all"], ...all.map((one) => [one, one])], chosen ?? "");
    }
    this.tierField.hidden = tiers.length === 0;
    const chips = Object.entries(SAID).filter(([key]) => this.query[key] !== undefined);
    this.said.replaceChildren(...chips.map(([key, title]) => this.chip(key, title)));
  }

  chip(key, title) {
    const drop = h("button", { type: "button", class: "quiet", "aria-label": `Without this ${title}`, onclick: () => this.choose({ [key]: undefined, offset: 0 }) }, "×");
    return h("span", { class: "chip" }, `${title}: `, name(this.query[key] || "none"), drop);
  }

  choose(change) {
    Object.assign(this.query, change);
    for (const key of ["search", "outcome", "agent", "tier"]) if (!this.query[key]) delete this.query[key];
    for (const key of Object.keys(SAID)) if (this.query[key] === undefined) delete this.query[key];
    this.change(this.address());
    this.offer();
    this.asking.ask();
  }

  // The part of the address that is not as it is without choosing.
  address() {
    const plain = { sort: "latest", descending: false, offset: 0 };
    return Object.fromEntries(KEPT.filter((key) => this.query[key] !== undefined && this.query[key] !== plain[key]).map((key) => [key, String(this.query[key])]));
  }

  // An empty failure mode means: none; so it must not be left out.
  async load(signal) {
    const page = await drawn(runPath(this.run, `/trials?${new URLSearchParams(Object.entries(this.query))}`), {}, signal);
    this.page = page;
    this.table.take(page.trials);
    this.pager.show(page.offset, page.trials[""].order.length, page.matching, page.total);
  }

  close() {
    clearTimeout(this.typing);
    this.asking.close();
    this.failures.asking.close();
  }
}

const kept = (options) => Object.fromEntries(KEPT.filter((key) => key in options).map((key) => [key, options[key]]));
