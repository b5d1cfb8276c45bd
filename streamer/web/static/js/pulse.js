// Whether the numbers on the page are current: what is away, and what to do. Old numbers stay, in grey.

import { get } from "./api.js";
import { h, second, visible } from "./shared.js";

const EVERY_MS = 5000;
const PATIENCE_MS = 1200;
const WORDS = { live: "live", lost: "not current", connecting: "connecting" };

export class Pulse {
  // live: the element of the header; main: what becomes grey; token(): the server asks for one
  constructor(live, main, token) {
    Object.assign(this, { live, main, token });
    this.banner = h("div", { class: "banner", role: "alert", hidden: true });
    main.before(this.banner);
    this.stream = "connecting";
    this.problem = null;
    this.waiting = null;
    this.at = null;
    this.timer = setInterval(() => document.hidden || this.check(), EVERY_MS);
    this.check();
  }

  // What the view says of its stream: "connecting", "live", "lost".
  state(word) {
    this.stream = word;
    if (word === "live") this.at = new Date();
    if (word === "lost") this.check();
    this.draw();
  }

  async check() {
    this.problem = await problem(() => this.askForToken());
    this.draw();
  }

  // Nothing is away: the visitor has to say something first.
  askForToken() {
    this.stream = "connecting";
    this.token();
  }

  draw() {
    const away = this.problem !== null || this.stream === "lost";
    const word = away ? "lost" : this.stream;
    if (this.live.dataset.state !== word) {
      this.live.dataset.state = word;
      this.live.lastElementChild.textContent = WORDS[word];
    }
    if (away) this.waiting ??= setTimeout(() => this.tell(), PATIENCE_MS);
    else this.hide();
  }

  tell() {
    this.waiting = null;
    const since = this.at ? ` Numbers below are from ${second(this.at)}.` : "";
    const said = this.problem ?? "The stream of updates was interrupted; reopening it.";
    this.banner.replaceChildren(h("p", {}, said + since));
    this.banner.hidden = false;
    this.main.classList.add("stale");
  }

  hide() {
    clearTimeout(this.waiting);
    this.waiting = null;
    this.banner.hidden = true;
    this.main.classList.remove("stale");
  }
}

// What is wrong, and what to do; null: nothing.
async function problem(token) {
  try {
    const health = await get("/api/health");
    if (health.following) return null;
    return `The server cannot read Redis: ${visible(health.problem)}. This page resumes by itself.`;
  } catch (error) {
    if (error.status === 401) {
      token();
      return null;
    }
    if (error.status) return `The server answers with an error: ${visible(error.message)}. Its log says more.`;
    return `The server at ${location.host} does not answer. Start it again with \`streamer up\` or \`streamer serve\`; this page resumes by itself.`;
  }
}
