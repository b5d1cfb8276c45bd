// One trial with everything that is known of it, as the server draws it, and why it failed or fell back.

import { drawn, runPath } from "./api.js";
import { Files } from "./files.js";
import { h, made } from "./shared.js";

const dialog = document.getElementById("drawer");

let closed = () => {};
let latest = null; // of the trials that were opened

dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
dialog.addEventListener("close", () => dialog.open || closed()); // another trial may have opened meanwhile

// options: {file, change(options), closed()}: which file is open, so that the address can follow
export async function openTrial(run, id, options) {
  const mine = (latest = {});
  closed = options.closed;
  show(h("h2", { id: "drawer-title" }, "Trial"), h("div", { class: "content" }, h("p", { class: "note" }, "Loading…")));
  if (!dialog.open) dialog.showModal();
  try {
    const { title, content } = await drawn(runPath(run, `/trials/${id}`));
    if (latest !== mine) return;
    show(made(title), made(content));
    const files = new Files(dialog, (number) => runPath(run, `/trials/${id}/artifacts/${number}`), (file) => options.change({ file }));
    if (options.file) files.open(Number(options.file));
  } catch (error) {
    if (latest === mine) dialog.querySelector(".content").replaceChildren(h("p", { class: "error", role: "alert" }, error.message));
  }
}

function show(title, content) {
  const close = h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(h("header", {}, title, close), content);
}

// Without telling the address: it has changed already.
export function closeDrawer() {
  closed = () => {};
  dialog.close();
}
