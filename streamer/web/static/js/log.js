// Lines of a log with the attributes that the terminal had, and diffs as diffs.

import { asWritten } from "./said.js";
import { h } from "./shared.js";

const MARKS = [["+++", "file"], ["---", "file"], ["diff ", "file"], ["@@", "hunk"], ["+", "added"], ["-", "removed"]];
const FLAGS = ["bold", "dim", "italic", "underline"];

export function linesView(view) {
  const left = view.left_out ? h("p", { class: "note" }, `Not shown: ${view.left_out}.`) : null;
  const lines = view.lines.map(view.kind === "diff" ? changed : printed);
  const box = h("div", { class: `log ${view.kind}`, tabindex: "0", role: "region", "aria-label": view.kind === "diff" ? "Diff" : "Log" }, ...lines);
  return h("div", { class: "trace" }, left, lines.length ? box : h("p", { class: "note" }, "The file is empty."));
}

const printed = (spans) => h("div", {}, ...spans.map(piece), "\n");

function piece(span) {
  const names = FLAGS.filter((flag) => span[flag]);
  if (span.color !== null) names.push(`ink-${span.color}`);
  if (span.background !== null) names.push(`ground-${span.background}`);
  return names.length ? h("span", { class: names.join(" ") }, asWritten(span.text)) : asWritten(span.text);
}

function changed(spans) {
  const text = spans.map((span) => span.text).join("");
  const mark = MARKS.find(([start]) => text.startsWith(start));
  return h("div", { class: mark ? mark[1] : null }, asWritten(text), "\n");
}
