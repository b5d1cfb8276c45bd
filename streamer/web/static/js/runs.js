// A page of the runs, as they change. The server searches, sorts and pages.

import { getPage } from "./api.js";
import { columnsOf } from "./cells.js";
import { Pager } from "./controls.js";
import { card, field, h, name } from "./dom.js";
import { howToBegin } from "./empty.js";
import { Live } from "./live.js";
import { Table } from "./table.js";
import { Trouble } from "./trouble.js";

const PAGE = 100;
const TYPING_MS = 250;
const LATEST = { sort: "last", descending: true, offset: 0 };
// A page is asked for again so long after a run that it lacks has changed: the latest runs, and any other page.
const LATEST_MS = 1000;
const OTHERS_MS = 10000;

export class Runs {
  // options: {search} of the address; change(options): so that it can follow
  constructor(options, change, state) {
    this.query = { ...LATEST, search: options.search ?? "", limit: PAGE };
    this.runs = new Map();
    this.total = 0;
    this.search = h("input", { type: "search", placeholder: "run, benchmark", value: this.query.search, oninput: () => this.later() });
    this.searching = field("Search", this.search);
    this.change = change;
    this.table = new Table(columnsOf("runs", []), {
      caption: "Runs",
      key: (run) => run.run_id,
      sort: { id: LATEST.sort, descending: LATEST.descending },
      onsort: (sort, descending) => this.choose({ sort, descending, offset: 0 }),
      primary: "state",
      empty: () => (this.total || this.query.search ? "No run fits." : howToBegin()),
    });
    this.pager = new Pager(PAGE, (offset) => this.choose({ offset }));
    this.pager.element.hidden = true;
    this.element = card("Runs", [this.searching], this.table.element, this.pager.element);
    this.trouble = new Trouble(this.element, () => this.ask());
    this.live = new Live("/api/updates", {
      reset: () => (this.begins = true),
      put: (run) => (this.runs.has(run.run_id) ? this.runs.set(run.run_id, run) : this.lacks()),
      remove: ({ run_id }) => this.runs.delete(run_id) && this.lacks(),
      told: () => this.told(),
      state,
    });
  }

  // The stream begins with runs that the page may not show: it is asked for once.
  told() {
    if (this.begins) this.ask();
    else this.draw();
    this.begins = false;
  }

  // The list has other runs than the page shows.
  lacks() {
    const latest = !this.query.search && Object.entries(LATEST).every(([key, value]) => this.query[key] === value);
    if (!this.begins) this.again ||= setTimeout(() => this.ask(), latest ? LATEST_MS : OTHERS_MS);
  }

  later() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      this.change({ search: this.search.value });
      this.choose({ search: this.search.value, offset: 0 });
    }, TYPING_MS);
  }

  choose(change) {
    Object.assign(this.query, change);
    this.ask();
  }

  async ask() {
    clearTimeout(this.again);
    this.again = 0;
    this.pending?.abort();
    this.pending = new AbortController();
    try {
      const [runs, matching] = await getPage("/api/runs", this.query, this.pending.signal);
      if (runs.length === 0 && matching > 0) return this.choose({ offset: 0 });
      this.runs = new Map(runs.map((run) => [run.run_id, run]));
      this.matching = matching;
      this.total = this.query.search ? Math.max(this.total, matching) : matching;
      this.trouble.over();
      this.draw();
    } catch (error) {
      if (error.name !== "AbortError") this.trouble.tell(error);
    }
  }

  draw() {
    if (this.matching === undefined) return;
    const runs = this.table.sorted([...this.runs.values()]);
    this.searching.hidden = this.total <= PAGE && !this.query.search;
    this.table.setColumns(columnsOf("runs", runs, { run: linked }));
    this.table.update(runs);
    this.pager.show(this.query.offset, runs.length, this.matching, this.total);
    this.pager.element.hidden = this.total <= PAGE;
  }

  close() {
    for (const timer of [this.again, this.typing]) clearTimeout(timer);
    this.pending?.abort();
    this.trouble.close();
    this.live.close();
  }
}

export const runLink = (run, rest = "") => `#/run/${encodeURIComponent(run)}${rest}`;

// Its name as a link, and its id where that is another.
function linked(run) {
  const link = h("a", { href: runLink(run.run_id) }, name(run.display_name ?? run.run_id));
  return h("div", {}, link, run.display_name ? h("div", { class: "note" }, name(run.run_id)) : null);
}
