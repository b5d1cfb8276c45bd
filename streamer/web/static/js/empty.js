// What stands where there is nothing yet: how the first run comes here, with commands to copy.

import { h } from "./shared.js";

const WAYS = [
  ["Follow the directory of a run, finished or not", "streamer tail RUN_DIRECTORY"],
  ["Watch a simulated benchmark", "streamer simulate demo-out && streamer tail demo-out"],
];

export function howToBegin() {
  const items = WAYS.map(([what, command]) => h("li", {}, h("span", {}, what), copied(command)));
  return h("div", { class: "begin" }, h("p", {}, "No runs yet. The first one comes here by itself:"), h("ul", {}, ...items));
}

// A command with a button that copies it; without a clipboard it is selected.
function copied(command) {
  const code = h("code", {}, command);
  const said = h("span", { class: "unseen", role: "status" });
  const button = h("button", { type: "button", class: "plain", "aria-label": `Copy: ${command}`, onclick: () => copy() }, "Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
      said.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  };
  return h("span", { class: "command" }, code, button, said);
}
