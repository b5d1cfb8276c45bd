// The address of this view, copied. A browser allows that on https and on this machine; elsewhere it is shown, chosen.

import { h } from "./shared.js";

const SHOWN_MS = 4000;

export function offerLink() {
  const button = document.getElementById("copy");
  const said = document.getElementById("copied");
  let timer = 0;
  button.addEventListener("click", async () => {
    clearTimeout(timer);
    try {
      await navigator.clipboard.writeText(location.href);
      said.replaceChildren("copied");
      timer = setTimeout(() => said.replaceChildren(), SHOWN_MS);
    } catch {
      const shown = h("input", { readonly: true, value: location.href, "aria-label": "Link to this view", onblur: () => said.replaceChildren() });
      said.replaceChildren(shown);
      shown.select();
    }
  });
}
