// All runs, the latest first, as they change.

import { columnsOf } from "./cells.js";
import { card, field, h, name } from "./dom.js";
import { howToBegin } from "./empty.js";
import { Live } from "./live.js";
import { Table } from "./table.js";

const PAGE = 100;

export class Runs {
  // options: {search} of the address; change(options): so that it can follow
  constructor(options, change, state) {
    this.runs = new Map();
    const searched = () => {
      change({ search: this.search.value });
      this.draw(0);
    };
    this.search = h("input", { type: "search", placeholder: "run, benchmark", value: options.search ?? "", oninput: searched });
    this.searching = field("Search", this.search);
    this.table = new Table(columnsOf("runs", []), {
      caption: "Runs",
      key: (run) => run.run_id,
      sort: { id: "last", descending: true },
      primary: "state",
      empty: () => (this.runs.size ? "No run fits." : howToBegin()),
      page: PAGE,
    });
    this.element = card("Runs", [this.searching], this.table.element);
    this.live = new Live("/api/updates", {
      reset: () => this.runs.clear(),
      put: (run) => this.runs.set(run.run_id, run),
      remove: (gone) => this.runs.delete(gone.run_id),
      told: () => this.draw(),
      state,
    });
  }

  draw(offset) {
    const text = this.search.value.toLowerCase();
    const has = (run) => `${run.run_id}\n${run.display_name ?? ""}\n${run.benchmark ?? ""}`.toLowerCase().includes(text);
    const runs = [...this.runs.values()].filter(has);
    this.searching.hidden = this.runs.size <= PAGE && !text;
    this.table.setColumns(columnsOf("runs", runs, { run: linked }));
    this.table.update(runs, this.runs.size, offset);
  }

  close() {
    this.live.close();
  }
}

export const runLink = (run, rest = "") => `#/run/${encodeURIComponent(run)}${rest}`;

// Its name as a link, and its id where that is another.
function linked(run) {
  const link = h("a", { href: runLink(run.run_id) }, name(run.display_name ?? run.run_id));
  return h("div", {}, link, run.display_name ? h("div", { class: "note" }, name(run.run_id)) : null);
}
