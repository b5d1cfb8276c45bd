// Numbers, times and grades for people. Infinity and NaN travel as texts; unknown is null.

import { WORDS } from "./boards.js";
import { h } from "./dom.js";

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
export const ratio = (value) => finite(value, (v) => ratios.format(v));
export const share = (value) => finite(value, (v) => v.toFixed(3));
export const times = (value) => finite(value, (v) => `${ratios.format(v)}×`);
// Only the whole is 100 %, and only nothing is 0 %, as `streamer.text.percent` says.
export const percent = (value) => finite(value, (v) => {
  const [size, minus] = [Math.abs(v), v < 0 ? "-" : ""];
  if (size >= 0.9995 && size < 1) return `${minus ? "<" : ">"}${minus}99.9\u00a0%`;
  if (size > 0 && size < 0.0005) return `${minus ? ">" : "<"}${minus}0.1\u00a0%`;
  return `${minus}${(100 * size).toFixed(1)}\u00a0%`;
});

// A difference with its sign; the minus stands before the sign of a currency. What is below or above a limit has its own.
export const signed = (by, write) => (/^[<>]/.test(write(Math.abs(by))) ? write(by) : `${by > 0 ? "+" : ""}${minus(by, write)}`);
const minus = (by, write) => `${by < 0 ? "−" : ""}${write(Math.abs(by))}`;

// A difference of two shares in points, and both ends of a range of them, as `streamer.text` writes them.
export const points = (by) => {
  const size = (100 * Math.abs(by)).toFixed(1);
  const sign = by < 0 ? "−" : "+";
  const least = by !== 0 && Number(size) === 0;
  return `${least ? (by < 0 ? ">" : "<") : ""}${sign}${least ? "0.1" : size}\u00a0points`;
};
const tenth = (by) => minus(by, (size) => (100 * size).toFixed(1)).replace(/^−0\.0$/, "0.0");

// By how much a metric differs, and an interval of that; percentages differ by points.
export const difference = (by, write) => (write === percent ? points(by) : signed(by, write));
export const differences = ({ low, high }, write) => `[${[low, high].map((end) => (write === percent ? tenth(end) : minus(end, write))).join(", ")}]`;

export const usd = (value) =>
  finite(value, (v) => {
    const digits = v !== 0 && Math.abs(v) < 1 ? 4 : 2;
    return `$${v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
  });

export const usdRough = (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

// Times are in UTC, and in the words of `streamer/views/tables.py`.
const iso = (date, from, to) => date.toISOString().slice(from, to);
const minute = (date) => `${iso(date, 0, 16).replace("T", " ")} UTC`;
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

export function moment(text) {
  return text ? h("time", { datetime: text, title: text }, minute(new Date(text))) : UNKNOWN;
}

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

export function ago(text) {
  if (!text) return UNKNOWN;
  const [at, now] = [new Date(text), Date.now()];
  return h("time", { datetime: text, title: now - at < -1000 * AHEAD ? WORDS.event_time : minute(at) }, age(at.getTime(), now));
}

// How long ago the times below an element were, by the visitor's clock.
export function tick(root) {
  for (const time of root.querySelectorAll("time.age")) {
    const [at, now] = [new Date(time.dateTime).getTime(), Date.now()];
    time.textContent = age(at, now);
    if (now - at < -1000 * AHEAD) time.title = WORDS.event_time;
  }
}

const MOODS = { S: "good", A: "good", B: "accent", C: "accent", D: "warn", F: "bad" };

export function grade(value, marks = "", why = "") {
  if (!value) return UNKNOWN;
  return h("span", { class: `badge grade ${MOODS[value] ?? ""}`, title: why || null }, value, marks);
}

// Beside an accuracy, wherever trials failed for infrastructure reasons; else nothing.
export function withoutInfrastructure(summary) {
  const failures = summary.infrastructure_failures;
  if (!failures) return null;
  return `${percent(summary.accuracy_excluding_infrastructure)} without ${counted(failures, "infrastructure failure")}`;
}

export function meter(value, write = percent) {
  const share = number(value);
  if (share === null) return UNKNOWN;
  const bar = h("span", { "aria-hidden": "true" }, h("i", { "--share": Math.max(0, Math.min(1, share)) }));
  return h("span", { class: "meter" }, bar, write(value));
}
