// The files that a trial left: each opens in its place, read and drawn by the server; steps can be searched.

import { drawn } from "./api.js";
import { h, made } from "./shared.js";

// element: of the trial; address(number): of a file; opened(number): which file is open now, null for none
export class Files {
  constructor(element, address, opened) {
    Object.assign(this, { address, opened });
    this.pane = element.querySelector(".file");
    this.buttons = new Map([...element.querySelectorAll("button[data-file]")].map((button) => [Number(button.dataset.file), button]));
    for (const [number, button] of this.buttons) button.addEventListener("click", () => this.toggle(number));
  }

  toggle(number) {
    const open = this.shown === number;
    this.opened(open ? null : number);
    if (open) this.close();
    else this.open(number);
  }

  close() {
    this.shown = null;
    for (const button of this.buttons.values()) button.setAttribute("aria-expanded", "false");
    this.pane.replaceChildren();
  }

  async open(number) {
    if (!this.buttons.has(number)) return;
    this.close();
    this.shown = number;
    this.buttons.get(number).setAttribute("aria-expanded", "true");
    this.pane.replaceChildren(h("p", { class: "note" }, "Loading…"));
    const problem = (error) => h("p", { class: "error", role: "alert" }, error.message);
    const found = await drawn(this.address(number)).then(({ file }) => made(file), problem);
    if (found.querySelector(".steps")) searched(found);
    if (this.shown === number) this.pane.replaceChildren(found);
  }
}

function searched(file) {
  const [search, errors] = file.querySelectorAll("input");
  const status = file.querySelector("[role=status]");
  const [all, steps] = [status.textContent, [...file.querySelectorAll(".steps > li")]];
  const has = (element, wanted) => [...element.querySelectorAll("pre, code")].some((text) => text.textContent.toLowerCase().includes(wanted));
  const show = () => {
    const wanted = search.value.toLowerCase();
    for (const step of steps) {
      step.hidden = (errors.checked && !step.classList.contains("failed")) || (wanted && !has(step, wanted));
      if (!step.hidden && wanted) for (const call of step.querySelectorAll("details")) call.open = has(call, wanted);
    }
    const shown = steps.filter((step) => !step.hidden).length;
    status.textContent = shown === steps.length ? all : `${shown} of ${all}`;
  };
  for (const input of [search, errors]) input.addEventListener("input", show);
}
