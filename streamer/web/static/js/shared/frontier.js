// Cost against quality, as the server draws it: its points take the colours of the lines. Every point is focusable.

export class Frontier {
  // picks: who has a colour
  constructor(picks) {
    this.picks = picks;
    const toggle = (event) => {
      const point = event.target.closest(".point");
      if (!point || (event.type === "keydown" && !["Enter", " "].includes(event.key))) return;
      event.preventDefault();
      picks.toggle(this.labelOf(point));
    };
    this.element = h("figure", { class: "chart", onclick: toggle, onkeydown: toggle });
  }

  labelOf = (point) => this.picks.order[point.dataset.place];

  take(tree) {
    const held = document.activeElement?.closest(".point")?.dataset.place;
    this.element.replaceChildren(made(tree));
    this.points = [...this.element.querySelectorAll(".point")].map((point) => ({ point, label: point.querySelector("text") }));
    this.paint();
    if (held) this.points.find(({ point }) => point.dataset.place === held)?.point.focus();
  }

  // Those that nobody picked have no label; each point says its name when one points at it.
  paint() {
    for (const { point, label } of this.points ?? []) {
      const slot = this.picks.slot(this.labelOf(point));
      point.style.setProperty("--color", color(slot));
      point.setAttribute("aria-pressed", String(slot >= 0));
      point.classList.toggle("grey", slot < 0);
      if (label) slot < 0 ? label.remove() : point.append(label);
    }
  }
}
