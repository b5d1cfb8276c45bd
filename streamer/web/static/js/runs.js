// A page of the runs, as they change. The server searches, sorts and pages.

import { drawn } from "./api.js";
import { howToBegin } from "./empty.js";
import { Live } from "./live.js";
import { card, DrawnTable, field, h, MAJOR, name, Pager } from "./shared.js";
import { Asking } from "./trouble.js";

const PAGE = 100;
const LATEST = { sort: "last", descending: true, offset: 0, search: "", label: "" };
// A page is asked for again so long after a run that it lacks has changed: the latest runs, and any other page.
const LATEST_MS = 1000;
const OTHERS_MS = 10000;

export class Runs {
  // options: {search, label} of the address; change(options): so that it can follow
  constructor(options, change, state) {
    const { search, label } = (this.query = { ...LATEST, search: options.search ?? "", label: options.label ?? "", limit: PAGE });
    this.search = h("input", { type: "search", placeholder: "run, benchmark, label", value: search, oninput: () => this.later() });
    this.searching = field("Search", this.search);
    this.change = change;
    this.table = new DrawnTable("List of runs", { onsort: (sort, descending) => this.choose({ sort, descending, offset: 0 }) });
    this.pager = new Pager(PAGE, (offset) => this.choose({ offset }));
    this.pager.element.hidden = true;
    const chosen = label ? [h("a", { class: "chip", href: "#/", "aria-label": `Without the label ${label}` }, name(label), " ×")] : [];
    this.element = card("Runs", [this.searching, ...chosen], this.table.element, this.pager.element);
    this.element.addEventListener("click", ({ target }) => this.keep(target.closest("a.chip")));
    this.asking = new Asking(this.element, (signal) => this.load(signal));
    this.live = new Live("/api/updates", {
      view: () => ({ view: "runs" }),
      reset: () => (this.begins = true),
      drawn: ({ runs }) => this.take(runs),
      remove: ({ run_id }) => this.table.rows.has(run_id) && this.lacks(),
      told: () => this.told(),
      state,
    });
  }

  // The stream begins with runs that the page may not show: it is asked for once.
  told() {
    if (this.begins) this.ask();
    this.begins = false;
  }

  // Rows that changed, with all columns of the board; the page shows those that some run of it knows.
  take({ "": _, ...rows }) {
    const ids = [...this.table.head.cells].map((head) => head.dataset.id);
    const kept = {};
    for (const [run, [tag, attributes, ...cells]] of Object.entries(rows)) {
      const shown = cells.filter(([, { "data-id": id }]) => ids.includes(id));
      const more = cells.some(([, { "data-id": id, class: look }]) => !ids.includes(id) && !look?.includes("unknown"));
      if (this.table.rows.has(run)) kept[run] = [tag, attributes, ...shown.map(placed)];
      if (!this.table.rows.has(run) || more) this.lacks();
    }
    this.table.take(kept);
  }

  // The list has other runs than the page shows.
  lacks() {
    const latest = Object.entries(LATEST).every(([key, value]) => this.query[key] === value);
    if (!this.begins) this.again ||= setTimeout(() => this.ask(), latest ? LATEST_MS : OTHERS_MS);
  }

  later() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.choose({ search: this.search.value, offset: 0 }), 250);
  }

  // A label that is chosen or dropped leaves the search as it is.
  keep(link) {
    if (link && this.search.value) link.hash = `${link.hash}${link.hash.includes("?") ? "&" : "?"}${new URLSearchParams({ search: this.search.value })}`;
  }

  choose(change) {
    const { search, label } = Object.assign(this.query, change);
    this.change({ search, label });
    this.ask();
  }

  ask() {
    this.again = clearTimeout(this.again);
    return this.asking.ask();
  }

  async load(signal) {
    const { runs, matching } = await drawn("/api/runs", this.query, signal);
    if (runs[""].order.length === 0 && matching > 0) return void this.choose({ offset: 0 });
    const narrowed = this.query.search || this.query.label;
    this.total = narrowed ? Math.max(this.total ?? 0, matching) : matching;
    this.searching.hidden = this.total <= PAGE && !this.query.search;
    this.table.take(runs);
    if (!this.total && !narrowed) this.table.nothing?.firstChild.replaceChildren(howToBegin());
    this.pager.show(this.query.offset, runs[""].order.length, matching, this.total);
    this.pager.element.hidden = this.total <= PAGE;
  }

  close() {
    for (const timer of [this.again, this.typing]) clearTimeout(timer);
    this.asking.close();
    this.live.close();
  }
}

// A cell of the board as it stands in a page of the runs, which has fewer columns.
function placed([tag, { class: look = "", "data-id": _, ...attributes }, ...children], at) {
  const classes = look.split(" ").filter((one) => one && one !== "minor");
  if (at > MAJOR) classes.push("minor");
  return [tag, { ...(classes.length ? { class: classes.join(" ") } : {}), ...attributes }, ...children];
}

export const runLink = (run, rest = "") => `#/run/${encodeURIComponent(run)}${rest}`;
