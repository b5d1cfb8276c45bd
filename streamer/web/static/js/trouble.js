// A card that asks the API by itself: why it has no answer stands in it, old numbers go grey, and it asks again.

import { h, visible } from "./shared.js";

const AGAIN_MS = 3000;
const CLOSED = 501;

// Whether what is wrong may pass by itself; error: of `get`
const passes = (error) => error.status === undefined || (error.status >= 500 && error.status !== CLOSED);

export class Trouble {
  // card: an element as `card` makes it; again(): asks once more
  constructor(card, again) {
    [this.card, this.again] = [card, again];
    this.words = h("p", { class: "error", role: "alert", hidden: true });
    card.querySelector("header").after(this.words);
    this.timer = 0;
  }

  // error: of `get`. What the server will refuse again is not asked for again.
  tell(error) {
    const words = error.status ? visible(error.message) : "The server does not answer. This part goes on by itself.";
    if (this.words.textContent !== words) this.words.textContent = words;
    this.words.hidden = false;
    this.card.classList.add("stale");
    clearTimeout(this.timer);
    this.timer = passes(error) && !this.closed ? setTimeout(() => this.again(), AGAIN_MS) : 0;
  }

  // There was an answer.
  over() {
    clearTimeout(this.timer);
    this.words.hidden = true;
    this.card.classList.remove("stale");
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
  }
}
