// A table whose rows stay the same elements while their contents change, so that focus and place survive.

import { h, name, visible } from "./dom.js";
import { UNKNOWN } from "./format.js";

// A phone shows so many columns besides the first, unless it is asked for all.
const MAJOR = 5;

export class Table {
  // columns: {id, title, outside, hint, about, number, value(row), cell(row), high}; outside: somebody else chose
  //          the title; about: the question that it answers, ""; value gives what is sorted by, null last
  // options: caption, key(row), sort {id, descending}, onsort(id, descending): sorting is done elsewhere,
  //          rowClass(row), empty: what to say without rows, as text or a function that makes an element,
  //          primary: id of the column that stands beside the name on a phone
  constructor(columns, options) {
    this.options = options;
    this.sort = options.sort ?? null;
    this.rows = [];
    this.elements = new Map();
    this.head = h("tr", { role: "row" });
    this.body = h("tbody", { role: "rowgroup" });
    this.all = h("button", { type: "button", class: "plain every-button", "aria-pressed": "false", onclick: () => this.toggleAll() }, "All columns");
    const caption = h("caption", { class: "unseen" }, options.caption);
    this.element = h(
      "div",
      { class: "scroll", role: "region", "aria-label": options.caption, tabindex: "0" },
      h("table", { role: "table" }, caption, h("thead", { role: "rowgroup" }, this.head), this.body),
      this.all,
    );
    this.setColumns(columns);
  }

  // The rows get their cells of these columns with the next update; the focus stays where it was.
  setColumns(columns) {
    const heads = (some) => JSON.stringify(some.map(({ id, title, hint, about }) => [id, title, hint, about]));
    const same = this.columns !== undefined && heads(this.columns) === heads(columns);
    this.columns = columns;
    if (same) return;
    this.drawn = columns;
    const focused = focusedIn(this.head)?.dataset.id;
    this.head.replaceChildren(...columns.map((column) => this.heading(column)));
    [...this.head.children].find((cell) => cell.dataset.id === focused)?.querySelector("button")?.focus();
    this.markSort();
  }

  // On a phone a row is a card with few of its columns.
  toggleAll() {
    const every = this.element.classList.toggle("every");
    this.all.setAttribute("aria-pressed", String(every));
  }

  heading(column) {
    const attributes = { scope: "col", role: "columnheader", class: column.number ? "number" : null, title: column.hint ?? null, "data-id": column.id };
    const title = column.outside ? name(column.title) : column.title;
    const about = column.about ? h("span", { class: "about" }, column.about) : null;
    if (!column.value) return h("th", attributes, title, about);
    return h("th", attributes, h("button", { type: "button", onclick: () => this.sortBy(column) }, title), about);
  }

  // Sort by this column from the first moment that there is one, unless the visitor has chosen.
  sortFirst(id) {
    const column = this.columns.find((one) => one.id === id && one.value);
    if (this.asked || !column || this.sort?.id === id) return;
    this.sort = { id, descending: Boolean(column.high) };
    this.markSort();
  }

  sortBy(column) {
    this.asked = true;
    const again = this.sort?.id === column.id;
    this.sort = { id: column.id, descending: again ? !this.sort.descending : Boolean(column.high) };
    this.markSort();
    if (this.options.onsort) this.options.onsort(this.sort.id, this.sort.descending);
    else this.update(this.rows);
  }

  markSort() {
    for (const cell of this.head.children) {
      const active = this.sort && cell.dataset.id === this.sort.id;
      if (active) cell.setAttribute("aria-sort", this.sort.descending ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
  }

  update(rows) {
    this.rows = rows;
    const sorted = this.options.onsort || !this.sort ? rows : this.sorted(rows);
    const keys = new Set();
    sorted.forEach((row, at) => {
      const key = this.options.key(row);
      keys.add(key);
      const element = this.rowElement(key, row);
      if (this.body.children[at] !== element) this.body.insertBefore(element, this.body.children[at] ?? null);
    });
    for (const [key, held] of this.elements) {
      if (keys.has(key)) continue;
      held.element.remove();
      this.elements.delete(key);
    }
    this.all.hidden = rows.length === 0 || this.columns.length <= MAJOR + 1;
    this.sayEmpty(rows.length === 0);
  }

  sayEmpty(empty) {
    this.nothing?.remove();
    if (!empty) return;
    const said = this.options.empty ?? "Nothing yet.";
    const cell = h("td", { colspan: String(this.columns.length), class: "empty", role: "cell" }, typeof said === "function" ? said() : said);
    this.nothing = h("tr", { role: "row" }, cell);
    this.body.append(this.nothing);
  }

  sorted(rows) {
    const column = this.columns.find((one) => one.id === this.sort.id) ?? this.columns[0];
    const sign = this.sort.descending ? -1 : 1;
    return [...rows].sort((one, other) => {
      const [a, b] = [column.value(one), column.value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
  }

  rowElement(key, row) {
    const held = this.elements.get(key);
    if (held?.row === row && held.drawn === this.drawn) return held.element;
    const element = held?.element ?? h("tr", { role: "row" });
    element.className = this.options.rowClass?.(row) ?? "";
    const cells = this.columns.map((column, at) => {
      const tag = at === 0 ? "th" : "td";
      const content = column.cell(row);
      const classes = [column.number ? "number" : null, column.id === this.options.primary ? "primary" : null, at > MAJOR ? "minor" : null, content === UNKNOWN ? "unknown" : null];
      const attributes = { class: classes.filter(Boolean).join(" ") || null, scope: at === 0 ? "row" : null, role: at === 0 ? "rowheader" : "cell", "data-label": visible(column.title) };
      return h(tag, attributes, content);
    });
    const focused = held?.drawn[[...element.children].indexOf(focusedIn(element))]?.id;
    element.replaceChildren(...cells);
    cells[this.columns.findIndex((column) => column.id === focused)]?.querySelector("button, a")?.focus();
    this.elements.set(key, { row, element, drawn: this.drawn });
    return element;
  }
}

// The cell of a row whose button or link has the focus.
function focusedIn(row) {
  return [...row.children].find((cell) => cell.contains(document.activeElement));
}
