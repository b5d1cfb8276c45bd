// What may be concluded from a group, in the words of streamer/views/tables.py, and as a thin bar.

import { WORDS } from "./boards.js";
import { h, visible } from "./dom.js";
import { UNKNOWN, count, grade, number, percent } from "./format.js";

const NEARLY = 1e-9;

// Whether results are still missing.
const isOpen = (group) => Boolean(group.provisional || group.in_flight);

const whole = ({ low, high }) => [Math.floor(100 * low + NEARLY), Math.ceil(100 * high - NEARLY)];

function reach(group) {
  const found = group.uncertainty?.reachable?.pass_rate ?? null;
  return found && found.low !== found.high ? found : null;
}

// {low, high, text, mark}: where the final pass rate lies; null once it is known, or not at all.
export function interval(group) {
  const final = group.uncertainty?.final ?? null;
  if (final && !final.unknown) return null;
  if (final?.order_kind === "shuffled") { // earlier versions had others
    const [low, high] = whole(final);
    return { ...final, text: `[${low}, ${high}]`, mark: "interval" };
  }
  const bounds = reach(group);
  if (!bounds) return null;
  const [low, high] = whole(bounds);
  return { ...bounds, text: `(${low} to ${high})`, mark: "bounds" };
}

// Why there is no interval of the final pass rate; "" where there is one, or the rate is known.
export function reason(group) {
  const code = group.uncertainty?.final_missing ?? null;
  const bounds = group.uncertainty?.reachable?.pass_rate ?? null;
  if (code === null || (bounds && bounds.low === bounds.high)) return "";
  return WORDS.reasons[code] ?? code;
}

// What stands beside a pass rate that lacks results; "" where none are missing.
const missingWord = (group) => (!isOpen(group) ? "" : group.over ? WORDS.incomplete : WORDS.so_far);

export const decided = (group) => group.graded !== false && Boolean(group.uncertainty?.decided?.grade) && isOpen(group);

// [scored, trials] of a judged group that lacks scores; null: all have one, or it is not judged.
function judgedOf(group) {
  const scored = group.coverage?.impl_rate ?? null;
  return group.grade_basis !== "composite_median" || scored === null || scored >= group.trials ? null : [scored, group.trials];
}

// The grade of a group or of a row of a leaderboard, with its marks; pointed at, it says what they mean.
export function groupGrade(group) {
  if (group.graded === false) return UNKNOWN;
  const stands = { "*": group.provisional, "?": group.grade_provisional || judgedOf(group) !== null, "!": decided(group) };
  const marks = Object.keys(stands).filter((mark) => stands[mark]);
  const basis = WORDS.bases[group.grade_basis];
  return grade(group.grade, marks.join(""), [...(basis ? [`by ${basis}`] : []), ...marks.map((mark) => WORDS.marks[mark])].join("; "));
}

const rateOf = (group) => number(group.statistics?.pass_rate?.mean ?? null);

// "61.7 % [55, 68]" over a thin bar: the interval, and where the rate so far stands in it.
export function passRate(group) {
  const rate = rateOf(group);
  if (rate === null) return UNKNOWN;
  const lies = interval(group);
  const word = missingWord(group);
  const soFar = word && !lies ? ` ${word}` : "";
  const why = reason(group);
  const title = [lies ? WORDS.explained[lies.mark] : null, why ? `No interval: ${why}.` : null].filter(Boolean).join(" ") || null;
  const text = h("span", { class: "rate" }, percent(rate), soFar, lies ? h("span", { class: "ends" }, ` ${lies.text}`) : null);
  return h("span", { class: "uncertain", title }, text, bar(rate, lies));
}

function bar(rate, lies) {
  const [low, high] = lies ? [lies.low, lies.high] : [0, rate];
  return h("span", { class: lies ? "bar" : "bar plain", "aria-hidden": "true", "--low": low, "--high": Math.max(high, low + 0.01), "--at": rate }, h("i"), lies ? h("b") : null);
}

// What the marks in these rows mean, a line each, and why intervals are missing.
export function footnotes(groups) {
  const rated = groups.filter((group) => rateOf(group) !== null); // the others show no mark
  const marks = new Set(rated.map((group) => interval(group)?.mark).filter(Boolean));
  if (rated.some((group) => interval(group)?.order_changed)) marks.add("changed");
  for (const group of rated) if (isOpen(group) && (group.over || !interval(group))) marks.add(missingWord(group));
  if (groups.some(({ pass_at_k: found }) => Object.values(found ?? {}).some((one) => one.partial && one.value !== null))) marks.add("partial");
  if (groups.some(decided)) marks.add("decided");
  const lines = Object.keys(WORDS.explained).filter((mark) => marks.has(mark)).map((mark) => WORDS.explained[mark]);
  const judged = groups.map(judgedOf).filter(Boolean);
  const [scored, trials] = [0, 1].map((at) => judged.reduce((sum, counts) => sum + counts[at], 0));
  if (judged.length) lines.push(`A judge has scored ${count(scored)} of ${count(trials)} trials. Grade and composite rest on these.`);
  const undeclared = groups.some((group) => [WORDS.reasons.order_undeclared, WORDS.reasons.order_unknown_in_part].includes(reason(group)));
  return [...lines, ...missing(groups), ...(undeclared ? [WORDS.explained.declare] : [])];
}

function missing(groups) {
  const without = new Map();
  for (const group of groups) {
    const why = reason(group);
    if (why) without.set(why, [...(without.get(why) ?? []), group]);
  }
  return [...without].map(([why, those]) => {
    const names = those.map((group) => group.agent_model).filter(Boolean).map(visible);
    const whose = names.length && those.length < groups.length ? ` for ${names.join(", ")}` : "";
    return `No interval of the final pass rate${whose}: ${why}.`;
  });
}
