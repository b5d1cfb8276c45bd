// All runs, the latest first, as they change.

import { columnsOf } from "./cells.js";
import { card, h, name } from "./dom.js";
import { howToBegin } from "./empty.js";
import { Live } from "./live.js";
import { Table } from "./table.js";

export class Runs {
  constructor(state) {
    this.runs = new Map();
    this.table = new Table(columnsOf("runs", []), {
      caption: "Runs",
      key: (run) => run.run_id,
      sort: { id: "last", descending: true },
      primary: "state",
      empty: howToBegin,
    });
    this.element = card("Runs", [], this.table.element);
    this.live = new Live("/api/updates", {
      reset: () => this.runs.clear(),
      put: (run) => this.runs.set(run.run_id, run),
      remove: (gone) => this.runs.delete(gone.run_id),
      told: () => this.draw(),
      state,
    });
  }

  draw() {
    const runs = [...this.runs.values()];
    this.table.setColumns(columnsOf("runs", runs, { run: linked }));
    this.table.update(runs);
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
