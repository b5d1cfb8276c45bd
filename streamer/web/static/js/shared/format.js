// Numbers and times for people. Infinity and NaN travel as texts; unknown is null.

export const UNKNOWN = "–";
const integers = new Intl.NumberFormat("en");
const ratios = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const NOT_FINITE = { Infinity: "∞", "-Infinity": "−∞", NaN: "NaN" };

// As a number that can be compared; null where nobody knows.
export function number(value) {
  if (value === null || value === undefined || value === "NaN") return null;
  return Number(value);
}

function finite(value, write) {
  if (value === null || value === undefined) return UNKNOWN;
  return typeof value === "string" ? (NOT_FINITE[value] ?? value) : Number.isFinite(value) ? write(value) : NOT_FINITE[String(value)];
}

export const count = (value) => finite(value, (v) => integers.format(v));
// So many of a thing whose plural ends in s.
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
// Below 0.1 three significant digits, so that only nothing is 0.
export const ratio = (value) => finite(value, (v) => (Math.abs(v) < 0.1 ? String(Number(v.toPrecision(3))) : ratios.format(v)));
export const share = (value) => finite(value, (v) => v.toFixed(3));
export const times = (value) => finite(value, (v) => `${ratios.format(v)}×`);
// Only the whole is 100 %, and only nothing is 0 %, as `streamer.text.percent` says.
export const percent = (value) => finite(value, (v) => {
  const [size, minus] = [Math.abs(v), v < 0 ? "-" : ""];
  if (size >= 0.9995 && size < 1) return `${minus ? "<" : ">"}${minus}99.9\u00a0%`;
  if (size > 0 && size < 0.0005) return `${minus ? ">" : "<"}${minus}0.1\u00a0%`;
  return `${minus}${(100 * size).toFixed(1)}\u00a0%`;
});

export const usd = (value) =>
  finite(value, (v) => {
    const size = Math.abs(v);
    if (size > 0 && size < 0.0001) return `${v < 0 ? "-" : ""}$${Number(size.toPrecision(2))}`;
    const digits = size > 0 && size < 1 ? 4 : 2;
    return `${v < 0 ? "-" : ""}$${size.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
  });

// Times are in UTC, and in the words of `streamer/views/cells.py`.
const iso = (date, from, to) => date.toISOString().slice(from, to);
export const second = (date) => `${iso(date, 11, 19)} UTC`;

// "03:40", or "2 Feb 03:40" where it may be another day.
export const clock = (date, withDay) => `${withDay ? `${date.getUTCDate()} ${date.toLocaleString("en", { month: "short", timeZone: "UTC" })} ` : ""}${iso(date, 11, 16)}`;

export const duration = (value) =>
  finite(value, (v) => {
    const size = Math.abs(v);
    if (size < 100) return `${ratios.format(Number(v.toPrecision(3)))} s`;
    if (size < 6000) return `${ratios.format(Number((v / 60).toPrecision(3)))} min`;
    if (size < 200_000) return `${ratios.format(Number((v / 3600).toPrecision(3)))} h`;
    return `${ratios.format(Number((v / 86_400).toPrecision(3)))} d`;
  });

// A time further ahead of this clock is not of this clock; an older one is a date.
const AHEAD = 60;
const OLD = 2 * 86_400;

// How long ago something was, in one unit; times in milliseconds.
export function age(at, now) {
  const seconds = (now - at) / 1000;
  const date = new Date(at);
  if (seconds < -AHEAD) return `event time ${-seconds < OLD ? `${clock(date)} UTC` : iso(date, 0, 10)}`;
  if (seconds >= OLD) return iso(date, 0, 10);
  const whole = Math.max(0, Math.floor(seconds));
  const [unit, size] = [["h", 3600], ["min", 60], ["s", 1]].find(([, least]) => whole >= least) ?? ["s", 1];
  return `${Math.floor(whole / size)} ${unit} ago`;
}

// How long ago the times below an element were, by the visitor's clock.
export function tick(root) {
  for (const time of root.querySelectorAll("time.age")) {
    const [at, now] = [new Date(time.dateTime).getTime(), Date.now()];
    time.textContent = age(at, now);
    if (now - at < -1000 * AHEAD) time.title = WORDS.event_time;
  }
}
