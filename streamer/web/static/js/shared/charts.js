// The two charts of a run, side by side, with what can be chosen of them.

export class Charts {
  // ask(): the curves as the server works them out; choose(): another cost or quality is wanted
  constructor(ask = null, choose = () => {}) {
    const again = () => this.draw();
    this.picks = { agent_model: new Picks(() => this.picked()), tier: new Picks(again) };
    this.kind = "agent_model";
    this.way = "time";
    this.curves = new Curves(ask, again);
    this.chart = new TimeChart(this.curves, (kind) => this.picks[kind]);
    this.frontier = new Frontier(this.picks.agent_model);
    this.line = select("Metric", [], "", () => this.chosen(this.line, again));
    this.kinds = segments("Lines", [["agent_model", "Agents"], ["tier", "Tiers"]], "agent_model", (kind) => this.show({ kind }));
    this.along = segments("Along", [["time", "Time"], ["trials", "Trials"]], "time", (way) => this.show({ way }));
    this.quality = select("Quality", [], "", () => this.chosen(this.quality, choose));
    this.unchosen = new Set([this.quality, this.line]); // they show the primary metric once it is known
    this.cost = select("Cost", [], "", choose);
    this.element = h(
      "div",
      { class: "two" },
      card("While trials came in", [this.line.element, this.along, this.kinds], h("div", { class: "body" }, this.chart.element)),
      card("Cost against quality", [this.quality.element, this.cost.element], h("div", { class: "body" }, this.frontier.element, h("p", { class: "note" }, "Dashed: the Pareto frontier. No agent is both cheaper than one on it and as good."))),
    );
  }

  show(chosen) {
    Object.assign(this, chosen);
    this.draw();
  }

  chosen(list, then) {
    this.unchosen.delete(list);
    then();
  }

  // told(): somebody picked an agent
  picked() {
    this.draw();
    this.frontier.paint();
    this.told?.();
  }

  // What is drawn against what, for the server.
  view = () => ({ cost: this.cost.select.value, quality: this.unchosen.has(this.quality) ? "" : this.quality.select.value, narrow: innerWidth < 520 });

  // offered: as `charts_of` of streamer/views/charts.py gives it
  update(offered) {
    this.offered = offered;
    this.kinds.hidden = offered.order.tier.length === 0;
    for (const [kind, labels] of Object.entries(offered.order)) this.picks[kind].offer(labels);
    this.cost.offer(offered.costs);
    this.quality.offer(offered.qualities);
    this.offerLines();
    for (const list of this.unchosen) list.choose(offered.primary);
    this.frontier.paint();
    this.draw();
  }

  offerLines() {
    this.line.offer(this.offered.lines[this.kind].map(({ name, title }) => [name, title]));
  }

  draw() {
    if (!this.offered) return;
    this.offerLines();
    const metric = this.offered.lines[this.kind].find(({ name }) => name === this.line.select.value);
    this.chart.show(this.kind, { ...metric, write: writes(metric) }, this.way);
  }

  // Number of an agent's colour; -1: grey.
  indexOf = (label) => this.picks.agent_model.slot(label);

  close() {
    this.chart.close();
    this.curves.close();
  }
}
