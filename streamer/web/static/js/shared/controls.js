// Choices: a list to select from, a row of buttons of which one is pressed, and the pages of a long list.

// options: [value, title]; what is chosen stays chosen while it is among them.
export function select(title, options, chosen, onchange) {
  const element = h("select", { onchange: () => onchange(element.value) });
  offer(element, options, chosen);
  const choose = (value) => offer(element, [...element.options].map((option) => [option.value, option.text]), value);
  return { element: field(title, element), offer: (offered) => offer(element, offered, element.value), choose, select: element };
}

export function offer(element, options, chosen) {
  const same = element.options.length === options.length && options.every(([value, title], at) => element.options[at].value === value && element.options[at].text === visible(title));
  if (!same) element.replaceChildren(...options.map(([value, title]) => h("option", { value }, visible(title))));
  if (options.some(([value]) => value === chosen)) element.value = chosen;
}

// go(offset): show the page that begins there
export class Pager {
  constructor(size, go) {
    this.size = size;
    const button = (title, place) => h("button", { type: "button", class: "plain", onclick: () => go(Math.max(0, place())) }, title);
    this.said = h("p", { class: "note", role: "status" });
    this.first = button("First", () => 0);
    this.back = button("Previous", () => this.offset - size);
    this.next = button("Next", () => this.offset + size);
    this.last = button("Last", () => size * Math.ceil(this.matching / size - 1));
    this.element = h("div", { class: "pager" }, this.said, this.first, this.back, this.next, this.last);
  }

  // matching: on all pages; total: also what the filters leave out
  show(offset, rows, matching, total, order = "") {
    [this.offset, this.matching] = [offset, matching];
    const of = matching === total ? count(total) : `${count(matching)} that fit, of ${count(total)}`;
    this.said.textContent = matching ? `${count(offset + 1)}–${count(offset + rows)} of ${of}${order}` : total ? `None of ${count(total)} fits` : "";
    this.first.disabled = this.back.disabled = offset === 0;
    this.last.disabled = this.next.disabled = offset + rows >= matching;
  }
}

export function segments(title, options, chosen, onchange) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => press(value) }, text),
  );
  const press = (value) => {
    options.forEach(([other], at) => buttons[at].setAttribute("aria-pressed", String(other === value)));
    onchange(value);
  };
  return h("div", { class: "segments", role: "group", "aria-label": title }, ...buttons);
}
