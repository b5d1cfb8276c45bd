// Which lines of a chart are drawn in colour: at most eight. The others are grey until somebody picks them.

export const MOST = 8;

export class Picks {
  constructor(change = () => {}) {
    this.change = change;
    this.slots = new Array(MOST).fill(null);
    this.chosen = false;
    this.order = [];
  }

  // labels: best first. Until the visitor picks, the best are drawn; a colour once given stays while it is drawn.
  offer(labels) {
    this.order = labels;
    this.slots = this.slots.map((label) => (labels.includes(label) ? label : null));
    if (this.chosen) return;
    const best = labels.slice(0, MOST);
    this.slots = this.slots.map((label) => (best.includes(label) ? label : null));
    for (const label of [...best].sort()) if (!this.has(label)) this.slots[this.slots.indexOf(null)] = label;
  }

  has = (label) => this.slots.includes(label);

  // Number of its colour; -1: grey.
  slot = (label) => this.slots.indexOf(label);

  toggle(label) {
    this.chosen = true;
    if (this.has(label)) this.slots[this.slot(label)] = null;
    else this.slots[this.free()] = label;
    this.change();
  }

  // A free colour, or that of the last in order.
  free() {
    const free = this.slot(null);
    return free >= 0 ? free : this.slot(this.order.findLast(this.has));
  }
}
