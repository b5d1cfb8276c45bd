// A card that asks the API by itself: why it has no answer stands in it, old numbers go grey, and it asks again.

import { h, visible } from "./shared.js";

const AGAIN_MS = 3000;
const CLOSED = 501;

// Whether what is wrong may pass by itself; error: of `get`
const passes = (error) => error.status === undefined || (error.status >= 500 && error.status !== CLOSED);

export class Asking {
  // card: an element as `card` makes it; load(signal): asks and draws; failed(): besides the words in the card
  constructor(card, load, failed = () => {}) {
    Object.assign(this, { card, load, failed });
    this.words = null; // while something is wrong
    this.timer = 0;
  }

  // The answer to the latest question alone counts.
  async ask() {
    this.pending?.abort();
    const question = (this.pending = new AbortController());
    try {
      await this.load(question.signal);
      this.over();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.tell(error);
      this.failed();
    } finally {
      if (this.pending === question) this.pending = null;
    }
  }

  // The state of the run moved: look again, but not all the time.
  soon() {
    if (this.refreshing || document.hidden) return;
    this.refreshing = setTimeout(() => {
      this.refreshing = 0;
      if (this.pending) this.soon();
      else this.ask();
    }, AGAIN_MS);
  }

  // error: of `get`. What the server will refuse again is not asked for again.
  tell(error) {
    const words = error.status ? visible(error.message) : "The server does not answer. This part resumes by itself.";
    if (!this.words) this.card.querySelector("header").after((this.words = h("p", { class: "error", role: "alert" })));
    if (this.words.textContent !== words) this.words.textContent = words;
    this.card.classList.add("stale");
    clearTimeout(this.timer);
    this.timer = passes(error) && !this.closed ? setTimeout(() => this.ask(), AGAIN_MS) : 0;
  }

  // There was an answer.
  over() {
    clearTimeout(this.timer);
    this.words?.remove();
    this.words = null;
    this.card.classList.remove("stale");
  }

  close() {
    this.closed = true;
    for (const timer of [this.timer, this.refreshing]) clearTimeout(timer);
    this.pending?.abort();
  }
}
