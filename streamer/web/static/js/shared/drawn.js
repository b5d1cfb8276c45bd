// A table that the server draws. Rows and cells stay the same elements while others change, so that focus, what is
// selected and the place survive.

// A phone shows so many columns besides the first, unless it is asked for all.
export const MAJOR = 5;

export class DrawnTable {
  // options: onsort(id, descending): the server sorts; onopen(key): the link of a row was followed here;
  //          paint(key, row): what the page adds to a new row
  constructor(caption, { onsort, onopen, paint } = {}) {
    this.paint = paint;
    this.rows = new Map();
    this.keys = [];
    this.head = h("tr", { role: "row" });
    this.body = h("tbody", { role: "rowgroup" });
    this.all = h("button", { type: "button", class: "plain every-button", "aria-pressed": "false", hidden: true }, "All columns");
    this.table = h("table", { role: "table", "data-elsewhere": Boolean(onsort) }, h("caption", { class: "unseen" }, caption), h("thead", { role: "rowgroup" }, this.head), this.body);
    this.element = h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, this.table, this.all);
    this.notes = h("div", { class: "note notes" });
    if (onopen) this.body.addEventListener("click", (event) => {
      if (!event.target.closest("a.link") || event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab or window of its own
      event.preventDefault();
      onopen(this.keyOf(event.target));
    });
    if (onsort) this.table.addEventListener("sortby", ({ detail }) => onsort(detail.id, detail.descending));
  }

  keyOf = (element) => [...this.rows].find(([, row]) => row.element.contains(element))[0];

  // parts: key of a row -> its element; "" -> {heads, order, notes, empty}; what has not changed may be missing.
  // most: so many rows are shown
  take({ "": besides, ...rows }, most = undefined) {
    const held = this.focused();
    const changed = besides !== undefined && this.takeHeads(besides.heads);
    if (besides && most) besides = { ...besides, order: besides.order.slice(0, most) };
    for (const [key, tree] of Object.entries(rows)) if (!most || besides.order.includes(key)) this.takeRow(key, tree, changed);
    if (besides) this.order(besides);
    arrange(this.table, this.keys.length ? this.keys.map((key) => this.rows.get(key).element) : undefined);
    this.focus(held);
    tick(this.body);
  }

  paintAll() {
    for (const [key, { element }] of this.rows) this.paint(key, element);
  }

  takeHeads(heads) {
    if (JSON.stringify(heads) === this.heads) return false;
    this.heads = JSON.stringify(heads);
    this.head.replaceChildren(...heads.map((head) => made(head)));
    mark(this.table);
    return true;
  }

  takeRow(key, tree, whole) {
    const held = this.rows.get(key) ?? { element: h("tr", { role: "row" }), cells: [] };
    const [, attributes, ...cells] = tree;
    held.element.className = attributes.class ?? "";
    const written = cells.map((cell) => JSON.stringify(cell));
    const same = (at) => !whole && written[at] === held.cells[at];
    const elements = cells.map((cell, at) => (same(at) ? held.element.cells[at] : made(cell)));
    if (whole || cells.length !== held.cells.length) held.element.replaceChildren(...elements);
    else elements.forEach((element, at) => same(at) || held.element.cells[at].replaceWith(element));
    held.cells = written;
    this.rows.set(key, held);
    this.paint?.(key, held.element);
  }

  order({ order, notes, empty, heads }) {
    const keys = new Set(order);
    for (const [key, { element }] of this.rows) if (!keys.has(key)) [element.remove(), this.rows.delete(key)];
    this.nothing?.remove();
    this.nothing = order.length ? null : h("tr", { role: "row" }, h("td", { colspan: String(heads.length), class: "empty", role: "cell" }, empty));
    this.keys = order; // rows move once at most: `arrange` brings them into their places
    for (const key of order) {
      const { element } = this.rows.get(key);
      if (element.parentElement !== this.body) this.body.append(element);
    }
    if (this.nothing) this.body.append(this.nothing);
    this.all.hidden = order.length === 0 || heads.length <= MAJOR + 1;
    this.notes.replaceChildren(...notes.map((note) => h("p", {}, note)));
  }

  // Row, column and place within the cell of what has the focus; null: nothing of this table.
  focused() {
    const cell = document.activeElement?.closest("th, td");
    if (!cell || !this.table.contains(cell)) return null;
    const id = this.head.cells[cell.cellIndex]?.dataset.id;
    return { element: document.activeElement, row: cell.parentElement, id, at: focusable(cell).indexOf(document.activeElement) };
  }

  focus(held) {
    if (!held || held.element === document.activeElement) return;
    const at = [...this.head.cells].findIndex((head) => head.dataset.id === held.id);
    const cell = at < 0 || !held.row.isConnected ? null : held.row.cells[at];
    if (cell) focusable(cell)[Math.max(0, held.at)]?.focus({ preventScroll: true });
  }
}

// A table of which the first rows are shown until its button is pressed.
export class FoldedTable extends DrawnTable {
  constructor(caption, first, options) {
    super(caption, options);
    this.first = first;
    this.more = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.fold({}, !this.whole) });
  }

  // Rows that have not changed may be missing: they are kept for when all are shown, and until they are over.
  fold(parts, whole = this.whole) {
    this.whole = whole;
    const found = { ...this.found, ...parts };
    this.total = found[""].order.length;
    this.found = Object.fromEntries(["", ...found[""].order].map((key) => [key, found[key]]));
    this.more.hidden = this.total <= this.first;
    this.more.textContent = this.whole ? "Show fewer" : `Show all ${count(this.total)}`;
    if (this.total) this.take(this.found, this.whole ? undefined : this.first);
  }
}

const focusable = (cell) => [...cell.querySelectorAll("a, button, summary")];
