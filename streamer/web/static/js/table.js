// A table whose rows stay the same elements while their contents change, so that focus and place survive.

import { h, name } from "./dom.js";

export class Table {
  // columns: {id, title, outside, hint, number, value(row), cell(row), high}; outside: somebody else chose the
  //          title; value gives what is sorted by, null last
  // options: caption, key(row), sort {id, descending}, onsort(id, descending): sorting is done elsewhere,
  //          rowClass(row), empty: what to say without rows
  constructor(columns, options) {
    this.options = options;
    this.sort = options.sort ?? null;
    this.rows = [];
    this.elements = new Map();
    this.head = h("tr");
    this.body = h("tbody");
    const caption = h("caption", { class: "unseen" }, options.caption);
    this.element = h(
      "div",
      { class: "scroll", role: "region", "aria-label": options.caption, tabindex: "0" },
      h("table", {}, caption, h("thead", {}, this.head), this.body),
    );
    this.setColumns(columns);
  }

  setColumns(columns) {
    const heads = (some) => JSON.stringify(some.map(({ id, title, hint }) => [id, title, hint]));
    const same = this.columns !== undefined && heads(this.columns) === heads(columns);
    this.columns = columns;
    if (same) return;
    this.elements.clear();
    this.body.replaceChildren();
    this.head.replaceChildren(...columns.map((column) => this.heading(column)));
    this.markSort();
  }

  heading(column) {
    const attributes = { scope: "col", class: column.number ? "number" : null, title: column.hint ?? null, "data-id": column.id };
    const title = column.outside ? name(column.title) : column.title;
    if (!column.value) return h("th", attributes, title);
    return h("th", attributes, h("button", { type: "button", onclick: () => this.sortBy(column) }, title));
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
    this.sayEmpty(rows.length === 0);
  }

  sayEmpty(empty) {
    this.nothing?.remove();
    if (!empty) return;
    this.nothing = h("tr", {}, h("td", { colspan: String(this.columns.length), class: "empty" }, this.options.empty ?? "Nothing yet."));
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
    if (held?.row === row) return held.element;
    const element = held?.element ?? h("tr");
    element.className = this.options.rowClass?.(row) ?? "";
    const cells = this.columns.map((column, at) => {
      const tag = at === 0 ? "th" : "td";
      const attributes = { class: column.number ? "number" : null, scope: at === 0 ? "row" : null };
      return h(tag, attributes, column.cell(row));
    });
    const focused = [...element.children].findIndex((cell) => cell.contains(document.activeElement));
    element.replaceChildren(...cells);
    if (focused >= 0) cells[focused].querySelector("button, a")?.focus();
    this.elements.set(key, { row, element });
    return element;
  }
}
