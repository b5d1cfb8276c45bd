// Text that agents and harnesses wrote: lines and tabs act, everything else that would is written out.

import { h, visible } from "./shared.js";

export const asWritten = (text) => text.split(/([\n\t])/).map((part) => (part === "\n" || part === "\t" ? part : visible(part))).join("");

export const written = (text) => h("pre", {}, asWritten(text));
