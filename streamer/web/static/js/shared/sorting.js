// Sorts tables by their heads, on the page and in saved files. Of a long table the page shows a window that grows; a
// file shows all, to search and to print.

const WINDOW = 200;

// The rows in the order of the head that has aria-sort; those without a value come last. Equal ones stay in the order in
// which they are given: that of the table, if none is.
export function arrange(table, rows = [...table.tBodies[0].rows]) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const at = heads.findIndex((head) => head.ariaSort);
  const held = document.activeElement;
  if (at >= 0 && table.dataset.elsewhere === undefined) {
    const sign = heads[at].ariaSort === "descending" ? -1 : 1;
    const read = heads[at].dataset.text === undefined ? Number : String;
    const value = (row) => (row.cells[at]?.dataset.sort === undefined ? null : read(row.cells[at].dataset.sort));
    const values = new Map(rows.map((row) => [row, value(row)]));
    rows.sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (a < b ? -1 : a > b ? 1 : 0);
    });
  }
  rows.forEach((row, place) => {
    if (body.rows[place] !== row) body.insertBefore(row, body.rows[place] ?? null);
    row.hidden = place >= Number(table.dataset.shown ?? WINDOW);
  });
  if (held !== document.activeElement && table.contains(held)) held.focus({ preventScroll: true });
  const last = rows.findLast((row) => !row.hidden);
  if (last && rows.at(-1).hidden) watch(table, last);
}

// Once the last row that is shown comes into sight, more are.
const watched = new Map();
const ends = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const table = watched.get(target);
    if (!isIntersecting || !table) continue;
    watched.delete(target);
    ends.unobserve(target);
    table.dataset.shown = Number(table.dataset.shown ?? WINDOW) + WINDOW;
    arrange(table);
  }
});

function watch(table, row) {
  for (const [before, of] of watched) if (of === table) [ends.unobserve(before), watched.delete(before)];
  watched.set(row, table);
  ends.observe(row);
}

// The order that the visitor has chosen stands at the heads, whichever the table came with.
export function mark(table) {
  const { by, direction } = table.dataset;
  if (by === undefined) return;
  for (const head of table.tHead.rows[0].cells) head.ariaSort = head.dataset.id === by ? direction : null;
}

// Where rows come sorted, the table only says what was chosen.
function choose(head) {
  const table = head.closest("table");
  const OTHER = { ascending: "descending", descending: "ascending" };
  table.dataset.direction = head.ariaSort ? OTHER[head.ariaSort] : head.dataset.first;
  table.dataset.by = head.dataset.id;
  mark(table);
  if (table.dataset.elsewhere === undefined) arrange(table);
  else table.dispatchEvent(new CustomEvent("sortby", { detail: { id: table.dataset.by, descending: table.dataset.direction === "descending" } }));
}

document.addEventListener("click", ({ target }) => {
  const button = target.closest?.(".scroll button");
  if (button?.closest("th[data-first]")) choose(button.closest("th"));
  if (button?.matches(".every-button")) button.ariaPressed = String(button.closest(".scroll").classList.toggle("every"));
});

// What a saved file cannot have in its attributes, and its tables with all their rows.
export function enliven() {
  for (const element of document.querySelectorAll("[data-vars]")) {
    for (const [name, value] of Object.entries(JSON.parse(element.dataset.vars))) element.style.setProperty(name, value);
    delete element.dataset.vars;
  }
  for (const table of document.querySelectorAll("main table")) {
    table.dataset.shown = Infinity;
    arrange(table);
  }
}
