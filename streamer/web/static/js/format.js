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
export const ratio = (value) => finite(value, (v) => ratios.format(v));
export const share = (value) => finite(value, (v) => v.toFixed(3));
export const times = (value) => finite(value, (v) => `${ratios.format(v)}×`);
// Only the whole is 100 %, and only nothing is 0 %, as `streamer.text.percent` says.
export const percent = (value) => finite(value, (v) => {
  if (v >= 0.9995 && v < 1) return ">99.9\u00a0%";
  return v > 0 && v < 0.0005 ? "<0.1\u00a0%" : `${(100 * v).toFixed(1)}\u00a0%`;
});
export const signed = (value, write) => (value > 0 ? `+${write(value)}` : write(value).replace("-", "−"));

export const usd = (value) =>
  finite(value, (v) => {
    const digits = v !== 0 && Math.abs(v) < 1 ? 4 : 2;
    return `$${v.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
  });

export const usdRough = (value) => `$${value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

// "03:40", or "2 Feb 03:40" where it may be another day.
export const clock = (date, withDay) => date.toLocaleString("en-GB", { ...(withDay ? { day: "numeric", month: "short" } : {}), hour: "2-digit", minute: "2-digit" });

export const duration = (value) =>
  finite(value, (v) => {
    const size = Math.abs(v);
    if (size < 100) return `${ratios.format(Number(v.toPrecision(3)))} s`;
    if (size < 6000) return `${ratios.format(Number((v / 60).toPrecision(3)))} min`;
    if (size < 200_000) return `${ratios.format(Number((v / 3600).toPrecision(3)))} h`;
    return `${ratios.format(Number((v / 86_400).toPrecision(3)))} d`;
  });

export function moment(text) {
  if (!text) return UNKNOWN;
  const date = new Date(text);
  const shown = date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  return h("time", { datetime: text, title: text }, shown);
}

// A time further ahead of this clock is not the run's own.
const AHEAD = 60;
const STEPS = [["day", 86_400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

export function ago(text) {
  if (!text) return UNKNOWN;
  const seconds = (new Date(text) - Date.now()) / 1000;
  if (seconds > AHEAD) return h("span", { title: "This time has not come yet: the run is simulated or replayed." }, "event time ", moment(text));
  const [unit, size] = STEPS.find(([, length]) => Math.abs(seconds) >= length) ?? STEPS[3];
  return h("time", { datetime: text, title: new Date(text).toLocaleString("en-GB") }, relative.format(Math.round(seconds / size), unit));
}

const MOODS = { S: "good", A: "good", B: "accent", C: "accent", D: "warn", F: "bad" };

// Of a group or a row of a leaderboard: * planned trials are missing, ? trials wait for their judge, ! decided.
export function groupGrade(group) {
  const settled = Boolean(group.uncertainty?.decided?.grade) && Boolean(group.provisional || group.in_flight);
  const why = [WORDS.bases[group.grade_basis] && `by ${WORDS.bases[group.grade_basis]}`, group.provisional && "planned trials are missing", group.grade_provisional && "trials wait for their judge", settled && "decided: it can no longer change, unless results are corrected"];
  return grade(group.grade, `${group.provisional ? "*" : ""}${group.grade_provisional ? "?" : ""}${settled ? "!" : ""}`, why.filter(Boolean).join("; "));
}

export function grade(value, marks = "", why = "") {
  if (!value) return UNKNOWN;
  return h("span", { class: `badge grade ${MOODS[value] ?? ""}`, title: why || null }, value, marks);
}

// Beside an accuracy, wherever trials failed for infrastructure reasons; else nothing.
export function withoutInfrastructure(summary) {
  const failures = summary.infrastructure_failures;
  if (!failures) return null;
  return `${percent(summary.accuracy_excluding_infrastructure)} without ${count(failures)} infrastructure failure${failures === 1 ? "" : "s"}`;
}

export function meter(value, write = percent) {
  const share = number(value);
  if (share === null) return UNKNOWN;
  const bar = h("span", { "aria-hidden": "true" }, h("i", { "--share": Math.max(0, Math.min(1, share)) }));
  return h("span", { class: "meter" }, bar, write(value));
}
