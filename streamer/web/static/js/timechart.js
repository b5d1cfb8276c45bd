// A metric over event time, one line per agent:model or tier. Drawn by uPlot; the legend is ours.

import { h, name } from "./dom.js";
import { get, runPath } from "./api.js";
import { number, percent, ratio } from "./format.js";
import { METRICS, color, plannedMetrics } from "./metrics.js";
import { prefixed } from "./named.js";

const MAX_POINTS = 600;
const HEIGHT = 280;

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

const tick = (metric, value) => (metric.write === percent ? `${Math.round(100 * value)} %` : metric.share ? ratio(value) : metric.write(value));

// Points of one group by time in seconds; the newest version of an instant stands.
class Series {
  constructor() {
    this.points = [];
  }

  add(point) {
    const last = this.points.at(-1);
    if (last && point.version <= last.version) return;
    if (last && point.x <= last.x) this.points.pop();
    this.points.push(last && point.x < last.x ? { ...point, x: last.x } : point);
    if (this.points.length > MAX_POINTS) this.points = this.points.filter((_, at) => at % 2 || at > MAX_POINTS / 2);
  }
}

export class TimeChart {
  // indexOf(key): which colour
  constructor(run, indexOf) {
    this.run = run;
    this.indexOf = indexOf;
    this.groups = { agent_model: new Map(), tier: new Map() };
    this.hidden = new Set();
    this.plotBox = h("div", { class: "plot", role: "img" });
    this.legend = h("ul", { class: "legend", "aria-label": "Lines" });
    this.element = h("figure", { class: "chart" }, this.plotBox, this.legend);
    this.shape = "";
    this.resize = new ResizeObserver(() => this.plot?.setSize({ width: this.width(), height: HEIGHT }));
    this.resize.observe(this.plotBox);
    this.repaint = () => this.rebuild();
    window.addEventListener("themechange", this.repaint);
  }

  // metric: one of metrics.js
  show(kind, metric) {
    this.kind = kind;
    this.metric = metric;
    this.draw();
  }

  // What Redis remembers; the stream of updates adds to it.
  async load() {
    this.take(await get(runPath(this.run, "/history"), { points: 300 }));
  }

  // Points of the history; what was heard since stays.
  take(points) {
    const fresh = { agent_model: new Map(), tier: new Map() };
    for (const point of points) {
      const values = { ...point, ...prefixed(point.metrics ?? {}) };
      if (point.kind === "agent_model") insert(fresh.agent_model, point.agent_model, point, values);
      if (point.kind === "tier" && point.agent_model === null) insert(fresh.tier, point.tier, point, values);
    }
    for (const kind of ["agent_model", "tier"]) {
      for (const [key, series] of this.groups[kind]) {
        for (const point of series.points) {
          if (!fresh[kind].has(key)) fresh[kind].set(key, new Series());
          fresh[kind].get(key).add(point);
        }
      }
    }
    this.groups = fresh;
    this.draw();
  }

  put(summary) {
    const values = {};
    for (const { name: metric, value } of Object.values({ ...METRICS, ...plannedMetrics([summary]) })) values[metric] = value(summary);
    if (summary.type === "agent_model_summary") insert(this.groups.agent_model, summary.agent_model, summary, values);
    if (summary.type === "tier_summary" && summary.agent_model === null) insert(this.groups.tier, summary.tier, summary, values);
  }

  pointCount() {
    return [...this.groups[this.kind].values()].reduce((sum, series) => sum + series.points.length, 0);
  }

  draw() {
    if (!this.kind) return;
    const keys = [...this.groups[this.kind].keys()].sort();
    const shape = JSON.stringify([this.kind, this.metric.name, this.metric.title, keys]);
    const data = this.aligned(keys);
    if (shape !== this.shape || !this.plot) {
      this.shape = shape;
      this.keys = keys;
      this.rebuild(data);
    } else {
      this.plot.setData(data);
    }
    this.describe(keys);
  }

  aligned(keys) {
    const lines = keys.map((key) => this.groups[this.kind].get(key).points);
    const xs = [...new Set(lines.flatMap((points) => points.map((point) => point.x)))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, index) => [x, index]));
    return [
      xs,
      ...lines.map((points) => {
        const ys = new Array(xs.length).fill(null);
        for (const point of points) {
          const y = number(point.values[this.metric.name]);
          ys[at.get(point.x)] = Number.isFinite(y) ? y : null;
        }
        if (points.length && xs.length) ys[xs.length - 1] ??= ys.findLast((y) => y !== null) ?? null;
        return ys;
      }),
    ];
  }

  rebuild(data = null) {
    if (!this.keys) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const css = (property) => style.getPropertyValue(property).trim();
    const metric = this.metric;
    const axis = { stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line"), width: 1 }, font: "12px system-ui, sans-serif" };
    const lines = this.keys.map((key) => ({
      label: key,
      stroke: css(color(this.indexOf(key, this.kind)).slice(4, -1)),
      width: 2,
      spanGaps: true,
      show: !this.hidden.has(key),
      paths: window.uPlot.paths.stepped({ align: 1 }),
      points: { show: data === null ? undefined : data[0].length < 40, size: 5 },
    }));
    this.plot = new window.uPlot(
      {
        width: this.width(),
        height: HEIGHT,
        legend: { show: false },
        cursor: { points: { size: 7 } },
        scales: metric.share ? { y: { range: [0, 1.02] } } : {},
        axes: [{ ...axis, values: CLOCK }, { ...axis, size: 64, values: (_, splits) => splits.map((value) => tick(metric, value)) }],
        series: [{}, ...lines],
        hooks: { setCursor: [(plot) => this.write(plot.cursor.idx)] },
      },
      data ?? this.aligned(this.keys),
      this.plotBox,
    );
    this.buildLegend();
  }

  buildLegend() {
    this.values = this.keys.map(() => h("b"));
    this.legend.replaceChildren(
      ...this.keys.map((key, at) => {
        const swatch = h("span", { class: "swatch", "--color": color(this.indexOf(key, this.kind)), "aria-hidden": "true" });
        const button = h("button", { type: "button", "aria-pressed": String(!this.hidden.has(key)), onclick: () => toggle() }, swatch, name(key), this.values[at]);
        const toggle = () => {
          if (!this.hidden.delete(key)) this.hidden.add(key);
          button.setAttribute("aria-pressed", String(!this.hidden.has(key)));
          this.plot.setSeries(at + 1, { show: !this.hidden.has(key) });
        };
        return h("li", {}, button);
      }),
    );
    this.write(null);
  }

  // Values under the cursor, or the latest ones.
  write(index) {
    if (!this.plot) return;
    const metric = this.metric;
    this.values.forEach((element, at) => {
      const ys = this.plot.data[at + 1] ?? [];
      const y = ys.slice(0, index === null || index === undefined ? ys.length : index + 1).findLast((value) => value !== null);
      element.textContent = metric.write(y ?? null);
    });
  }

  describe(keys) {
    this.write(null);
    const title = this.metric.title;
    const groups = keys.length === 1 ? "1 line" : `${keys.length} lines`;
    this.plotBox.setAttribute("aria-label", `${title} over event time, ${groups}; the latest values stand below`);
    this.plotBox.dataset.points = String(this.pointCount());
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

function insert(groups, key, place, values) {
  if (!place.last_event_at || place.deleted) return;
  if (!groups.has(key)) groups.set(key, new Series());
  const version = place.epoch * 2 ** 40 + place.state_version;
  groups.get(key).add({ x: new Date(place.last_event_at) / 1000, version, values });
}
