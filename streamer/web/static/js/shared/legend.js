// The names of a chart's lines with their values. The grey ones stand apart, folded.

export class Legend {
  // pick(label); point(label or null): the pointer, or the keyboard, is there
  constructor(pick, point) {
    [this.pick, this.point] = [pick, point];
    this.drawn = h("ul", { class: "legend", "aria-label": "Lines" });
    this.grey = h("ul", { class: "legend", "aria-label": "Grey lines" });
    this.count = h("summary");
    this.others = h("details", { class: "others", hidden: true }, this.count, this.grey);
    this.element = h("div", {}, this.drawn, this.others);
    this.values = new Map();
    this.shape = "";
  }

  show(keys, picks) {
    const shape = JSON.stringify([keys, picks.slots]);
    if (shape === this.shape) return;
    this.shape = shape;
    this.values.clear();
    const held = document.activeElement?.dataset?.label;
    const drawn = keys.filter((key) => picks.has(key)).sort((a, b) => picks.slot(a) - picks.slot(b));
    const grey = keys.filter((key) => !picks.has(key)).sort();
    this.drawn.replaceChildren(...drawn.map((key) => this.item(key, picks)));
    this.grey.replaceChildren(...grey.map((key) => this.item(key, picks)));
    this.count.textContent = `${grey.length} grey`;
    this.others.hidden = grey.length === 0;
    if (held) [...this.element.querySelectorAll("button")].find((button) => button.dataset.label === held)?.focus();
  }

  item(key, picks) {
    const value = h("b");
    this.values.set(key, value);
    const swatch = h("span", { class: "swatch", "--color": color(picks.slot(key)), "aria-hidden": "true" });
    const here = () => this.point(key);
    const away = () => this.point(null);
    return h("li", {}, h("button", { type: "button", "data-label": key, "aria-pressed": String(picks.has(key)), onclick: () => this.pick(key), onmouseenter: here, onmouseleave: away, onfocus: here, onblur: away }, swatch, name(key), value));
  }

  write(values) {
    for (const [key, element] of this.values) element.textContent = values.get(key) ?? "";
  }
}
