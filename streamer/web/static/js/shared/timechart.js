// A metric while trials came in, one line per agent:model or tier. Drawn by uPlot; the legend is ours.

const HEIGHT = 280;
const MOST_BANDS = 2;
const NEAR = 24;

// uPlot's own table of steps, written as dates and hours are written everywhere.
const [MINUTE, HOUR, DAY] = [60, 3600, 86_400];
const CLOCK = [
  [365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * DAY, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [DAY, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [HOUR, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [MINUTE, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, "{ss}.{fff}", "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];

const axisText = (metric, value) => (metric.write === percent ? `${Math.round(100 * value)} %` : metric.share ? ratio(value) : metric.write(value));

export class TimeChart {
  // curves: a Curves; picksOf(kind): which lines are in colour
  constructor(curves, picksOf) {
    this.curves = curves;
    this.picksOf = picksOf;
    this.plotBox = h("div", { class: "plot", role: "img", onclick: () => this.pick() });
    this.said = h("p", { class: "note chart-note" });
    this.legend = new Legend((label) => this.picks.toggle(label), (label) => this.focus(label));
    this.element = h("figure", { class: "chart" }, this.plotBox, this.said, this.legend.element);
    this.shape = "";
    this.keys = [];
    this.resize = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: HEIGHT }));
    this.resize.observe(this.plotBox);
    this.repaint = () => this.rebuild();
    window.addEventListener("themechange", this.repaint);
  }

  get picks() {
    return this.picksOf(this.kind);
  }

  // metric: one of metrics.js; along: "time" or "trials"
  show(kind, metric, along) {
    const way = along === "time" && !this.curves.timed(kind) ? "trials" : along;
    if (way !== this.along) this.zoom = null;
    Object.assign(this, { kind, metric, along: way });
    this.draw();
  }

  draw() {
    if (!this.kind) return;
    const groups = this.curves.groups[this.kind];
    const known = this.picks.order.filter((key) => groups.has(key));
    const keys = [...known.filter((key) => !this.picks.has(key)), ...known.filter((key) => this.picks.has(key))];
    const shape = JSON.stringify([this.kind, this.metric.name, this.metric.title, this.along, keys, this.picks.slots]);
    this.data = this.curves.columns(this.kind, keys, this.metric, this.along);
    this.keys = keys;
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.rebuild();
    } else {
      this.plot.setData(this.data);
    }
    this.describe();
  }

  rebuild() {
    if (!this.data) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const css = (property) => style.getPropertyValue(property).trim();
    this.css = css;
    const metric = this.metric;
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const lines = this.keys.map((key) => {
      const slot = this.picks.slot(key);
      return { label: key, stroke: css(color(slot).slice(4, -1)), width: slot < 0 ? 1 : 2, alpha: slot < 0 ? 0.55 : 1, spanGaps: true, paths: window.uPlot.paths.stepped({ align: 1 }), points: { show: slot >= 0 && this.data[0].length < 40, size: 5 } };
    });
    const xAxis = this.along === "time" ? { ...axis, values: CLOCK, space: 76 } : { ...axis, values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : "")) };
    this.plot = new window.uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        tzDate: (at) => window.uPlot.tzDate(new Date(1000 * at), "UTC"),
        legend: { show: false },
        focus: { alpha: 0.3 },
        cursor: { points: { size: 7 }, focus: { prox: NEAR }, drag: { dist: NEAR }, bind: { dblclick: (_, __, back) => (event) => [(this.zoom = null), back(event)] } },
        scales: { x: { time: this.along === "time", range: (_, low, high) => this.span(low, high) }, ...(metric.share ? { y: { range: [0, 1.02] } } : {}) },
        axes: [xAxis, { ...axis, size: 64, values: (_, splits) => splits.map((value) => axisText(metric, value)) }],
        series: [{}, ...lines],
        hooks: { setSelect: [(plot) => (this.zoom = [0, plot.select.width].map((x) => plot.posToVal(plot.select.left + x, "x")))], setCursor: [(plot) => this.write(plot.cursor.idx)], setSeries: [(_, index) => this.near(index)], drawAxes: [(plot) => this.bands(plot)] },
      },
      this.data,
      this.plotBox,
    );
  }

  // What was chosen by dragging; else the axis ends where the trials end; a single moment has a minute, or a trial,
  // to each side.
  span(low, high) {
    if (this.zoom) return this.zoom;
    if (low === null || high === null) return this.along === "time" ? [Date.now() / 1000 - HOUR, Date.now() / 1000] : [0, 1];
    const least = this.along === "time" ? MINUTE : 1;
    if (this.data[0].length === 1) high = low; // uPlot makes years of one moment
    return high - low >= least ? [low, high] : [low - least, high + least];
  }

  // The line under the cursor.
  near(index) {
    const key = index ? this.keys[index - 1] : null;
    if (key === this.focused) return;
    this.focused = key;
    this.plot?.redraw(false);
    this.write(this.plot?.cursor.idx);
  }

  focus(label) {
    const index = label === null ? null : this.keys.indexOf(label) + 1;
    this.plot?.setSeries(index, { focus: label !== null }, true);
    this.near(index);
  }

  pick() {
    if (this.focused && !this.zoom && this.plot?.cursor.left >= 0) this.picks.toggle(this.focused);
  }

  banded() {
    if (this.metric.name !== "pass_rate") return [];
    const drawn = this.keys.filter((key) => this.picks.has(key));
    return this.focused ? [this.focused] : drawn.length <= MOST_BANDS ? drawn : [];
  }

  // Where the final pass rate lay, behind its line.
  bands(plot) {
    for (const key of this.banded()) {
      const band = this.curves.band(this.kind, key, this.along);
      if (band.length < 2) continue;
      const [context, x, y] = [plot.ctx, (value) => plot.valToPos(value, "x", true), (value) => plot.valToPos(value, "y", true)];
      context.save();
      context.beginPath();
      context.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
      context.clip();
      context.beginPath();
      for (const point of band) context.lineTo(x(point.x), y(point.high));
      for (const point of band.toReversed()) context.lineTo(x(point.x), y(point.low));
      context.closePath();
      context.globalAlpha = 0.16;
      context.fillStyle = this.css(color(this.picks.slot(key)).slice(4, -1));
      context.fill();
      context.restore();
    }
  }

  // Values under the cursor, or the latest ones.
  write(index) {
    if (!this.plot) return;
    const values = new Map();
    this.keys.forEach((key, at) => {
      const ys = this.plot.data[at + 1] ?? [];
      values.set(key, this.metric.write(ys.slice(0, index === null || index === undefined ? ys.length : index + 1).findLast((value) => value !== null) ?? null));
    });
    this.legend.write(values);
    const banded = this.banded().some((key) => this.curves.band(this.kind, key, this.along).length > 1);
    const words = this.focused ? [name(this.focused), ` ${values.get(this.focused) ?? ""}.${this.zoom ? "" : ` Click the chart to ${this.picks.has(this.focused) ? "grey it" : "colour it"}.`}`] : this.note(banded);
    this.said.replaceChildren(...words);
  }

  note(banded) {
    if (this.curves.version < 0 && !this.curves.problem) return ["Loading the curves…"];
    if (this.curves.problem) return [`${this.keys.length ? "Old curves" : "No curves"}: ${visible(this.curves.problem)}`];
    const grey = this.keys.length - this.keys.filter((key) => this.picks.has(key)).length;
    return [[grey ? `${grey} grey: point to a line or its name.` : null, banded ? "Band: final pass rate interval." : null, this.along === "trials" ? "Along: trials done." : "Along: time, UTC.", this.zoom ? "Double-click: zoom out." : "Drag: zoom in."].filter(Boolean).join(" ")];
  }

  describe() {
    this.legend.show(this.keys, this.picks);
    this.write(null);
    const along = this.along === "time" ? "by the trials' own times" : "by trials done";
    const groups = counted(this.keys.length, "line");
    this.plotBox.setAttribute("aria-label", `${this.metric.title} ${along}, ${groups}; the latest values are below`);
    this.plotBox.dataset.points = String(this.keys.reduce((sum, key) => sum + this.curves.groups[this.kind].get(key).length, 0));
    const xs = this.data[0];
    this.plotBox.dataset.span = xs.length ? String(Math.round(xs.at(-1) - xs[0])) : "0";
  }

  width() {
    return Math.max(240, this.plotBox.clientWidth);
  }

  close() {
    this.resize.disconnect();
    window.removeEventListener("themechange", this.repaint);
    this.plot?.destroy();
  }
}
