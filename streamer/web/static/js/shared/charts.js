// The two charts of a run, side by side, with what can be chosen of them.

const LINES = ["pass_rate", "composite_score", "accuracy", "mean_speedup", "agent_advantage", "cost_of_pass", "total_cost", "trials"];
// Not every run has these; of tiers, none has FormulaCode's.
const SOMETIMES = ["composite_score", "mean_speedup", "agent_advantage"];
const QUALITIES = ["pass_rate", "composite_score", "accuracy", "mean_speedup", "agent_advantage"];
const COSTS = ["mean_cost", "cost_of_pass", "total_cost"];

const pick = (names) => names.map((name) => METRICS[name]);
const titled = (metrics) => metrics.map((metric) => [metric.name, metric.title]);

export class Charts {
  // ask(): the curves as the server works them out
  constructor(ask = null) {
    this.agents = [];
    this.tiers = [];
    this.metrics = METRICS;
    const again = () => this.draw();
    this.picks = { agent_model: new Picks(() => this.picked()), tier: new Picks(again) };
    this.choice = { kind: "agent_model", line: "", quality: "", cost: "mean_cost", along: "time" };
    this.curves = new Curves(ask, again);
    this.chart = new TimeChart(this.curves, (kind) => this.picks[kind]);
    this.frontier = new Frontier(this.picks.agent_model);
    this.line = select("Metric", titled(pick(LINES)), "", this.again("line"));
    this.kinds = segments("Lines", [["agent_model", "Agents"], ["tier", "Tiers"]], "agent_model", this.again("kind"));
    this.along = segments("Along", [["time", "Time"], ["trials", "Trials"]], "time", this.again("along"));
    this.quality = select("Quality", [], "", this.again("quality"));
    this.cost = select("Cost", titled(pick(COSTS)), this.choice.cost, this.again("cost"));
    this.element = h(
      "div",
      { class: "two" },
      card("While trials came in", [this.line.element, this.along, this.kinds], h("div", { class: "body" }, this.chart.element)),
      card("Cost against quality", [this.quality.element, this.cost.element], h("div", { class: "body" }, this.frontier.element, h("p", { class: "note" }, "Dashed: the Pareto frontier. No agent is cheaper than those on it and at least as good."))),
    );
  }

  again(what) {
    return (value) => {
      this.choice[what] = value;
      this.draw();
    };
  }

  // told(): somebody picked an agent
  picked() {
    this.draw();
    this.told?.();
  }

  // primary: the metric that boards are sorted by; it is drawn first
  update(agents, tiers, primary, version) {
    [this.agents, this.tiers] = [agents, tiers];
    this.kinds.hidden = tiers.length === 0;
    this.metrics = { ...METRICS, ...namedMetrics([...agents, ...tiers]) };
    const best = this.metrics[primary] ?? METRICS.pass_rate;
    this.picks.agent_model.offer(bestFirst(agents, best).map((agent) => agent.agent_model));
    this.picks.tier.offer(tiers.filter((tier) => tier.agent_model === null).map((tier) => tier.tier).sort());
    this.quality.offer(titled(known([...pick(QUALITIES), ...Object.values(namedMetrics(agents))], agents)));
    this.choice.quality ||= this.chosen(this.quality, best.name);
    this.line.offer(titled(this.lines()));
    this.choice.line ||= this.chosen(this.line, best.name);
    if (version !== undefined) this.curves.want(version);
    this.draw();
  }

  // The name, chosen in a list that has it; else what the list shows, and nothing is settled.
  chosen(list, wanted) {
    if (![...list.select.options].some((option) => option.value === wanted)) return "";
    list.select.value = wanted;
    return wanted;
  }

  draw() {
    const { kind, cost, along } = this.choice;
    this.line.offer(titled(this.lines()));
    const [line, quality] = [this.line.select.value, this.quality.select.value];
    this.chart.show(kind, this.metrics[line] ?? METRICS.pass_rate, along);
    this.frontier.update(this.agents, METRICS[cost], this.metrics[quality] ?? METRICS.pass_rate);
  }

  // Metrics that at least one line has; of named ones the history keeps those that the plan names.
  lines() {
    const groups = this.choice.kind === "tier" ? this.tiers : this.agents;
    const offered = known([...pick(SOMETIMES), ...Object.values(plannedMetrics(groups))], groups);
    return [...pick(LINES).filter((metric) => !SOMETIMES.includes(metric.name) || offered.includes(metric)), ...offered.filter((metric) => !SOMETIMES.includes(metric.name))];
  }

  // Number of an agent's colour; -1: grey.
  indexOf(label) {
    return this.picks.agent_model.slot(label);
  }

  close() {
    this.chart.close();
    this.curves.close();
  }
}

// Baselines last, then those without the value.
function bestFirst(agents, metric) {
  const sign = metric.high ? -1 : 1;
  const place = (agent) => [agent.baseline ? 1 : 0, valueOf(metric, agent) === null ? 1 : 0, sign * (valueOf(metric, agent) ?? 0)];
  return [...agents].sort((a, b) => {
    const [one, other] = [place(a), place(b)];
    const at = one.findIndex((value, index) => value !== other[index]);
    return at < 0 ? (a.agent_model < b.agent_model ? -1 : 1) : one[at] - other[at];
  });
}
