// The address of this view, copied. A browser allows that on https and on this machine; elsewhere it is shown, chosen.

import { h } from "./shared.js";

const SHOWN_MS = 4000;

// Whether the clipboard took the text.
export const copied = (text) => navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;

export function offerLink() {
  const said = document.getElementById("copied");
  let timer = 0;
  document.getElementById("copy").addEventListener("click", async () => {
    clearTimeout(timer);
    if (await copied(location.href)) {
      said.replaceChildren("copied");
      timer = setTimeout(() => said.replaceChildren(), SHOWN_MS);
      return;
    }
    const shown = h("input", { readonly: true, value: location.href, "aria-label": "Link to this view", onblur: () => said.replaceChildren() });
    said.replaceChildren(shown);
    shown.select();
  });
}
