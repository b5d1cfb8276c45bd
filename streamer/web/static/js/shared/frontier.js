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
    this.paint();
    if (held) this.element.querySelector(`.point[data-place="${held}"]`)?.focus();
  }

  // Names stand at the frontier and at what has a colour; each other point says its name when one points at it.
  paint() {
    for (const point of this.element.querySelectorAll(".point")) {
      const slot = this.picks.slot(this.labelOf(point));
      point.style.setProperty("--color", color(slot));
      point.setAttribute("aria-pressed", String(slot >= 0));
      point.classList.toggle("grey", slot < 0);
    }
  }
}
