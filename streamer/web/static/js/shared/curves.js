// The learning curves of a run as columns for the plot: by time, or by the number of trials done.

const LEAST_MS = 1000;
const REST = 8;

// The curves as the server works them out, asked for again when the run has changed, and not at once.
export class Curves {
  // ask(): what the server says of them; null: it is never asked
  constructor(ask, changed) {
    this.ask = ask;
    this.changed = changed;
    this.groups = { agent_model: new Map(), tier: new Map() };
    this.problem = null;
    this.version = -1;
    this.wanted = 0;
    this.timer = 0;
  }

  // state_version: of the run as the page knows it
  want(version) {
    this.wanted = Math.max(this.wanted, version);
    if (this.wanted > this.version && !this.timer) this.timer = setTimeout(() => this.load(), this.version < 0 ? 0 : this.pause ?? LEAST_MS);
  }

  async load() {
    const began = performance.now();
    try {
      const found = document.hidden ? null : await this.ask();
      this.problem = null;
      if (found) this.take(found);
    } catch (error) {
      this.problem = error.message;
      this.changed();
    }
    this.pause = Math.max(LEAST_MS, REST * (performance.now() - began));
    this.timer = 0;
    if (!this.closed && this.wanted > this.version) this.timer = setTimeout(() => this.load(), this.pause);
  }

  take(found) {
    this.version = found.state_version;
    this.groups = { agent_model: new Map(), tier: new Map() };
    for (const curve of found.curves) {
      const points = curve.points.map((point) => ({ at: point.at === null ? null : new Date(point.at) / 1000, trials: point.trials, final: point.final, values: { ...point, ...Object.fromEntries(Object.entries(point.metrics).map(([name, value]) => [NAMED + name, value])) } }));
      this.groups[curve.tier === null ? "agent_model" : "tier"].set(curve.tier ?? curve.agent_model, points);
    }
    this.changed();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }

  // Whether trials have times at all.
  timed(kind) {
    return [...this.groups[kind].values()].some((points) => points.some((point) => point.at !== null));
  }

  // Columns for the plot: x, then y of each key; null where a line has no point. A line goes on to the right end.
  columns(kind, keys, metric, along) {
    const lines = keys.map((key) => this.groups[kind].get(key) ?? []);
    const place = (point) => (along === "time" ? point.at : point.trials);
    const xs = [...new Set(lines.flatMap((points) => points.map(place)))].filter((x) => x !== null).sort((a, b) => a - b);
    const at = new Map(xs.map((x, index) => [x, index]));
    return [xs, ...lines.map((points) => this.column(points, place, at, xs.length, metric, along === "time"))];
  }

  column(points, place, at, length, metric, goesOn) {
    const ys = new Array(length).fill(null);
    let last = null;
    for (const point of points) {
      const y = number(point.values[metric.name]);
      if (!Number.isFinite(y) || y === null) continue;
      last = y;
      const x = place(point);
      if (x !== null) ys[at.get(x)] = y;
    }
    if (goesOn && length && last !== null) ys[length - 1] = last;
    return ys;
  }

  // Where the final pass rate lay, over time: {x, low, high}, oldest first.
  band(kind, key, along) {
    const points = (this.groups[kind].get(key) ?? []).filter((point) => point.final !== null);
    return points.map((point) => ({ x: along === "time" ? point.at : point.trials, ...point.final })).filter((point) => point.x !== null);
  }
}
