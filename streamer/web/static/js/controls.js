// Choices: a list to select from, and a row of buttons of which one is pressed.

import { field, h, visible } from "./dom.js";

// options: [value, title]; what is chosen stays chosen while it is among them.
export function select(title, options, chosen, onchange) {
  const element = h("select", { onchange: () => onchange(element.value) });
  offer(element, options, chosen);
  return { element: field(title, element), offer: (anew) => offer(element, anew, element.value), select: element };
}

export function offer(element, options, chosen) {
  const same = element.options.length === options.length && options.every(([value, title], at) => element.options[at].value === value && element.options[at].text === visible(title));
  if (!same) element.replaceChildren(...options.map(([value, title]) => h("option", { value }, visible(title))));
  if (options.some(([value]) => value === chosen)) element.value = chosen;
}

export function segments(title, options, chosen, onchange) {
  const buttons = options.map(([value, text]) =>
    h("button", { type: "button", "aria-pressed": String(value === chosen), onclick: () => press(value) }, text),
  );
  const press = (value) => {
    options.forEach(([other], at) => buttons[at].setAttribute("aria-pressed", String(other === value)));
    onchange(value);
  };
  return h("div", { class: "segments", role: "group", "aria-label": title }, ...buttons);
}
