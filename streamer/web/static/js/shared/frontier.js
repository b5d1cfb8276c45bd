// Cost against quality, with the Pareto frontier: those that nobody beats in both. SVG, every point focusable.

const WIDE = { width: 560, height: 330, left: 58, right: 24, top: 14, bottom: 44 };
const LONGEST_LABEL = 26;
const OFFSETS = [4, -10, 18, 32, -24, 46, -38];

// Of points {x: cost, y: quality}: those with no other that costs no more and is no worse, cheapest first.
export function frontier(points, high = true) {
  const sign = high ? 1 : -1;
  const sorted = [...points].sort((a, b) => a.x - b.x || sign * (b.y - a.y));
  const found = [];
  for (const point of sorted) if (!found.length || sign * (point.y - found.at(-1).y) > 0) found.push(point);
  return found;
}

export class Frontier {
  // picks: who has a colour
  constructor(picks) {
    this.picks = picks;
    this.box = h("div", {});
    this.element = h("figure", { class: "chart" }, this.box);
  }

  // xMetric, yMetric: two of metrics.js
  update(agents, xMetric, yMetric) {
    const points = agents
      .filter((agent) => !agent.baseline)
      .map((agent) => ({ agent, x: valueOf(xMetric, agent), y: valueOf(yMetric, agent) }))
      .filter((point) => Number.isFinite(point.x) && Number.isFinite(point.y) && point.x !== null && point.y !== null);
    if (!points.length) {
      this.box.replaceChildren(h("p", { class: "empty" }, "No agent has both a known cost and this score."));
      return;
    }
    const narrow = this.box.clientWidth > 0 && this.box.clientWidth < 430;
    const size = narrow ? { ...WIDE, width: 360, height: 300 } : WIDE;
    this.box.replaceChildren(drawing(points, this.picks, xMetric, yMetric, size));
  }
}

function drawing(points, picks, xMetric, yMetric, size) {
  const front = frontier(points, yMetric.high);
  const x = scale(points.map((point) => point.x), size.left, size.width - size.right, xLog(points));
  const y = scale(points.map((point) => point.y), size.height - size.bottom, size.top, false, yMetric.share ? [0, 1] : null);
  const onFront = new Set(front);
  const names = front.map((point) => visible(point.agent.agent_model)).join(", ");
  const label = `${yMetric.title} against ${xMetric.title.toLowerCase()}. On the frontier, cheapest first: ${names}`;
  return svg(
    "svg",
    { class: "scatter", viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": label },
    ...axes(x, y, xMetric, yMetric, size),
    svg("path", { class: "front", d: steps(front, x, y, size) }),
    ...placed(points, x, y, size, picks).map(({ point, label: place }) => dot(point, place, x, y, picks, onFront.has(point), xMetric, yMetric)),
  );
}

const xLog = (points) => {
  const xs = points.map((point) => point.x);
  return Math.min(...xs) > 0 && Math.max(...xs) / Math.min(...xs) > 20;
};

// From value to place. Costs begin at 0; what has limits stays within them, with some room around the points.
function scale(values, from, to, log, limits = null) {
  const f = log ? Math.log10 : (value) => value;
  let [low, high] = [f(Math.min(...values)), f(Math.max(...values))];
  if (!log && !limits && low > 0) low = 0;
  const room = limits ? Math.max(0.35 * (high - low), 0.04) : (high - low || Math.abs(high) || 1) * 0.08;
  high += room;
  if (log || limits || low < 0) low -= room;
  if (limits) [low, high] = [Math.max(low, limits[0] - 0.02), Math.min(high, limits[1] + 0.02)];
  const at = (value) => from + ((f(value) - low) / (high - low)) * (to - from);
  at.ticks = log ? decades(low, high) : nice(low, high);
  return at;
}

function nice(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 4));
  const stride = [1, 2, 2.5, 5, 10].map((factor) => factor * step).find((one) => (high - low) / one <= 5);
  const ticks = [];
  for (let tick = Math.ceil(low / stride) * stride; tick <= high; tick += stride) ticks.push(Number(tick.toPrecision(12)));
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(low); power <= high; power += 1) {
    for (const factor of [1, 3]) {
      const tick = factor * 10 ** power;
      if (Math.log10(tick) >= low && Math.log10(tick) <= high) ticks.push(tick);
    }
  }
  return ticks;
}

function axes(x, y, xMetric, yMetric, size) {
  const [floor, right] = [size.height - size.bottom, size.width - size.right];
  const cost = (value) => (xMetric.write === usd ? `$${Number(value.toPrecision(3))}` : xMetric.write(value));
  const score = (value) => (yMetric.write === percent ? `${ratio(100 * value)} %` : ratio(value));
  return [
    ...y.ticks.flatMap((tick) => [
      svg("line", { class: "grid", x1: size.left, x2: right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: size.left - 8, y: y(tick) + 4, "text-anchor": "end", "aria-hidden": "true" }, score(tick)),
    ]),
    ...x.ticks.map((tick) => svg("text", { x: x(tick), y: floor + 18, "text-anchor": "middle", "aria-hidden": "true" }, cost(tick))),
    svg("line", { class: "axis", x1: size.left, x2: right, y1: floor, y2: floor }),
    svg("text", { x: (size.left + right) / 2, y: size.height - 6, "text-anchor": "middle" }, `${xMetric.title} (USD) →`),
  ];
}

function steps(front, x, y, size) {
  const parts = [`M ${x(front[0].x)} ${size.height - size.bottom}`];
  for (const point of front) parts.push(`H ${x(point.x)} V ${y(point.y)}`);
  return `${parts.join(" ")} H ${size.width - size.right}`;
}

// Labels go right of their point, or left where there is no room, at the first free height. Those that nobody picked
// have none, nor have those that find no place; each point says its name when one points at it.
function placed(points, x, y, size, picks) {
  const taken = points.map((point) => ({ top: y(point.y) + 4, left: x(point.x) - 7, width: 14 }));
  const inColour = (point) => picks.has(point.agent.agent_model);
  const sorted = [...points].sort((a, b) => inColour(b) - inColour(a) || y(a.y) - y(b.y));
  const found = sorted.map((point) => ({ point, label: inColour(point) ? place(point, x, y, size, taken) : null }));
  return found.reverse();
}

function place(point, x, y, size, taken) {
  const text = short(visible(point.agent.agent_model));
  const width = text.length * 6.8;
  const right = { left: x(point.x) + 9, anchor: "start", at: x(point.x) + 9 };
  const left = { left: x(point.x) - 9 - width, anchor: "end", at: x(point.x) - 9 };
  const sides = right.left + width < size.width ? [right, left] : [left, right];
  for (const side of sides) {
    if (side.left < 0 || side.left + width > size.width + 10) continue;
    for (const offset of OFFSETS) {
      const top = y(point.y) + offset;
      if (top < 10 || top > size.height - size.bottom + 4) continue;
      if (taken.some((box) => Math.abs(box.top - top) < 14 && side.left < box.left + box.width && box.left < side.left + width)) continue;
      taken.push({ left: side.left, top, width });
      return { text, x: side.at, y: top, anchor: side.anchor };
    }
  }
  return null;
}

function short(text) {
  const plain = text.replace(/:[^:/]*\//, ":");
  return plain.length > LONGEST_LABEL ? `${plain.slice(0, LONGEST_LABEL - 1)}…` : plain;
}

function dot(point, label, x, y, picks, best, xMetric, yMetric) {
  const agent = point.agent.agent_model;
  const facts = `${visible(agent)}: ${yMetric.title.toLowerCase()} ${yMetric.write(point.y)}, ${xMetric.title.toLowerCase()} ${xMetric.write(point.x)}${best ? ", on the frontier" : ""}`;
  const kind = ["point", best ? null : "dominated", picks.has(agent) ? null : "grey"].filter(Boolean).join(" ");
  const toggle = (event) => (event.type === "click" || ["Enter", " "].includes(event.key) ? (event.preventDefault(), picks.toggle(agent)) : null);
  return svg(
    "g",
    { class: kind, tabindex: "0", role: "button", "aria-pressed": String(picks.has(agent)), "--color": color(picks.slot(agent)), onclick: toggle, onkeydown: toggle },
    svg("title", {}, facts),
    svg("circle", { cx: x(point.x), cy: y(point.y), r: picks.has(agent) ? 7 : 5 }),
    label ? svg("text", { x: label.x, y: label.y, "text-anchor": label.anchor, "aria-hidden": "true" }, label.text) : null,
  );
}
