// The only way in which this page makes elements. Text from outside becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, attributes = {}, ...children) => furnished(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) => furnished(document.createElementNS(SVG, tag), attributes, children);

// An element as the server draws it: a list of tag, attributes and children. A text stays one.
export function made(tree, inSvg = false) {
  if (typeof tree === "string") return tree;
  const [tag, attributes, ...children] = tree;
  const drawn = inSvg || tag === "svg";
  return (drawn ? svg : h)(tag, attributes, ...children.map((child) => made(child, drawn)));
}

function furnished(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

const ACTING = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

// What would move, hide or reorder text is written out, as on the command line.
export function visible(value) {
  return String(value).replace(ACTING, (character) => {
    const code = character.codePointAt(0);
    if (code <= 0xff) return `\\x${code.toString(16).padStart(2, "0")}`;
    if (code <= 0xffff) return `\\u${code.toString(16).padStart(4, "0")}`;
    return `\\U${code.toString(16).padStart(8, "0")}`;
  });
}

// A name that somebody else chose: in its own direction, cut by style where it is long, whole as its title.
export function name(value) {
  const text = visible(value);
  const parts = text.split(/(?<=[:/])/).flatMap((part, at) => (at ? [h("wbr"), part] : [part]));
  return h("bdi", { class: "name", title: text }, ...parts);
}

export const field = (title, control) => h("label", { class: "field" }, h("span", {}, title), control);

export function card(title, controls, ...body) {
  const head = h("header", {}, h("h2", {}, title), ...controls);
  return h("section", { class: "card", "aria-label": title }, head, ...body);
}
