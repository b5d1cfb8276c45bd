// Which view the address names. Everything else is in the views.

import { Compare } from "./compare.js";
import { signIn } from "./api.js";
import { Leaders } from "./leaders.js";
import { Pulse } from "./pulse.js";
import { Run } from "./run.js";
import { Runs } from "./runs.js";
import { offerLink } from "./share.js";
import { card, field, h, visible } from "./shared.js";

const main = document.getElementById("main");
const live = document.getElementById("live");
let view = null;
let first = true;
let pulse = null;

const state = (word) => pulse?.state(word);

// "#/run/a%2Fb/tiers?x=1" -> parts ["run", "a/b", "tiers"], options {x: "1"}
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decoded), options: Object.fromEntries(new URLSearchParams(query ?? "")) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// push: a step of its own, which Back takes back
const follow = (path) => (chosen, push = false) => {
  const given = Object.entries(chosen).filter(([key, value]) => value || key === "failure_mode" || key === "kind");
  const query = new URLSearchParams(given).toString();
  history[push ? "pushState" : "replaceState"](null, "", `#/${path}${query ? `?${query}` : ""}`);
};

const followRun = (id) => (tab) => follow(`run/${encodeURIComponent(id)}${tab === "board" ? "" : `/${tab}`}`);

function made({ parts, options }) {
  const [kind, id, tab] = parts;
  if (kind === "run" && id && options.as_of) return past(id, tab, options.as_of);
  if (kind === "run" && id) return new Run(id, tab, options, followRun(id), state);
  if (kind === "leaders") return new Leaders(options, follow("leaders"), state);
  if (kind === "compare") return new Compare(options, follow("compare"));
  if (["runs", undefined].includes(kind) && parts.length <= 1) return new Runs(options, follow("runs"), state);
  return unknown(parts);
}

// An earlier state is not streamed: the server draws it as a page of its own.
function past(run, tab, as_of) {
  location.replace(`/pages/runs/${encodeURIComponent(run)}?${new URLSearchParams({ as_of, ...(tab ? { tab } : {}) })}`);
  return { element: h("p", { class: "empty" }, "Loading…") };
}

function unknown(parts) {
  const address = visible(`#/${parts.join("/")}`);
  const said = h("p", { class: "error", role: "alert" }, `There is no page ${address}. Is the link cut off, or from another version?`);
  return { element: card("No such page", [], said, h("p", { class: "body" }, h("a", { href: "#/" }, "All runs"))), still: true };
}

function show() {
  view?.close?.();
  const where = address();
  state("connecting");
  view = made(where);
  const title = view.still ? "No such page" : ({ leaders: "Leaderboard", compare: "Compare" }[where.parts[0]] ?? "Runs");
  document.title = `${title} · streamer`;
  const heading = view.parts ? [] : [h("h1", { class: "unseen" }, title)];
  main.replaceChildren(...heading, ...(view.parts ?? [view.element]));
  if (view.still || where.parts[0] === "compare") state("live"); // nothing is streamed there
  const here = where.parts[0] === "run" ? "runs" : (where.parts[0] ?? "runs");
  for (const link of document.querySelectorAll("nav a[data-view]")) link.ariaCurrent = link.dataset.view === here ? "page" : null;
  if (!first) main.focus({ preventScroll: true });
  first = false;
}

function askForToken() {
  if (document.getElementById("token")) return;
  view?.close?.();
  view = null;
  const input = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true });
  const wrong = h("p", { class: "note", role: "alert" });
  const onsubmit = async (event) => {
    event.preventDefault();
    if (await signIn(input.value)) show();
    else wrong.textContent = "Wrong token. The person who started the server has it: --token, or STREAMER_WEB_TOKEN.";
  };
  const note = h("p", { class: "note" }, "Ask the person who started the server: it was set with --token or STREAMER_WEB_TOKEN. An address that ends in /?token=TOKEN opens without this question.");
  const form = h("form", { onsubmit, class: "body controls" }, field("Token", input), h("button", { class: "plain", type: "submit" }, "Open"), wrong, note);
  main.replaceChildren(card("This server asks for a token", [], form));
  input.focus();
}

window.addEventListener("hashchange", () => (location.hash === "#main" ? null : show()));
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
offerLink();
pulse = new Pulse(live, main, askForToken);
show();
