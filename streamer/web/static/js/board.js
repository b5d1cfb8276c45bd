// The board: every agent:model of a run, as the server draws it, in the colours of the charts.

import { color, DrawnTable, h } from "./shared.js";

export class Board {
  // indexOf(label): number of an agent's colour
  constructor(indexOf) {
    this.indexOf = indexOf;
    this.table = new DrawnTable("Agents of this run", { paint: (label, row) => this.paintRow(label, row) });
    this.element = h("div", {}, this.table.element, this.table.notes);
  }

  paintRow(label, row) {
    row.querySelector(".swatch")?.style.setProperty("--color", color(this.indexOf(label)));
  }

  paint() {
    for (const [label, { element }] of this.table.rows) this.paintRow(label, element);
  }
}
