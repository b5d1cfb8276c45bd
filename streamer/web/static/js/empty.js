// What stands where there is nothing yet: how the first run comes here, with commands to copy.

import { copied } from "./share.js";
import { h } from "./shared.js";

const WAYS = [
  ["Follow the directory of a run, finished or not", "streamer tail RUN_DIRECTORY"],
  ["Watch a simulated benchmark", "streamer simulate demo-out && streamer tail demo-out"],
];

export function howToBegin() {
  const items = WAYS.map(([what, command]) => h("li", {}, h("span", {}, what), offered(command)));
  return h("div", { class: "begin" }, h("p", {}, "No runs yet. The first one will appear here:"), h("ul", {}, ...items));
}

// A command with a button that copies it; without a clipboard it is selected.
function offered(command) {
  const code = h("code", {}, command);
  const said = h("span", { class: "unseen", role: "status" });
  const copy = async () => {
    const taken = await copied(command);
    if (!taken) getSelection().selectAllChildren(code);
    button.textContent = taken ? "Copied" : "Selected";
    said.textContent = taken ? "Copied" : "";
  };
  const button = h("button", { type: "button", class: "plain", "aria-label": `Copy: ${command}`, onclick: copy }, "Copy");
  return h("span", { class: "command" }, code, button, said);
}
