// The steps of a trajectory: calls folded, errors marked, search.

import { asWritten, written } from "./said.js";
import { badge, count, counted, field, h, name, usd } from "./shared.js";

const SOURCES = { agent: "agent", user: "user", system: "system", environment: "environment" };

export function stepsView(view) {
  const items = view.steps.map((step) => ({ step, element: item(step), text: textOf(step) }));
  const status = h("p", { class: "note", role: "status" });
  const search = h("input", { type: "search", placeholder: "command, output, message", oninput: () => show() });
  const errors = h("input", { type: "checkbox", onchange: () => show() });
  const failed = items.filter(({ step }) => step.error).length;
  const show = () => {
    const wanted = search.value.toLowerCase();
    let shown = 0;
    for (const { step, element, text } of items) {
      const fits = (!errors.checked || step.error) && (!wanted || text.includes(wanted));
      element.hidden = !fits;
      if (fits) shown += 1;
      if (fits && wanted) for (const call of element.querySelectorAll("details")) call.open = asText(call).includes(wanted);
    }
    const all = shown === items.length ? counted(items.length, "step") : `${count(shown)} of ${counted(items.length, "step")}`;
    status.textContent = `${all}, ${count(failed)} with an error${view.left_out ? `; not shown: ${view.left_out}` : ""}`;
  };
  show();
  const controls = h("div", { class: "controls" }, field("Search the steps", search), field("Only errors", errors));
  return h("div", { class: "trace" }, controls, status, h("ol", { class: "steps" }, ...items.map(({ element }) => element)));
}

const asText = (element) => element.textContent.toLowerCase();

const textOf = (step) => [step.text, step.reasoning ?? "", ...step.calls.flatMap((call) => [call.name, call.arguments, call.output ?? ""])].join("\n").toLowerCase();

function item(step) {
  const facts = [step.at, step.tokens === null ? null : counted(step.tokens, "token"), step.cost_usd === null ? null : usd(step.cost_usd)];
  const head = h("div", { class: "line" }, h("b", {}, `${count(step.number)}. ${SOURCES[step.source]}`), step.error ? badge("error", "bad") : null, h("span", { class: "note" }, name(facts.filter(Boolean).join(" · "))));
  const thought = step.reasoning ? h("details", {}, h("summary", {}, "Reasoning"), written(step.reasoning)) : null;
  return h("li", { class: step.error ? "failed" : null }, head, step.text ? written(step.text) : null, thought, ...step.calls.map(called));
}

function called(call) {
  const gist = `${call.name}  ${call.arguments}`.replace(/\s+/g, " ").slice(0, 140);
  const summary = h("summary", {}, call.error ? badge("error", "bad") : null, h("code", {}, asWritten(gist)));
  const output = call.output === null ? h("p", { class: "note" }, "The log has no output of it.") : written(call.output);
  return h("details", { class: "call" }, summary, call.arguments ? written(call.arguments) : null, output);
}
