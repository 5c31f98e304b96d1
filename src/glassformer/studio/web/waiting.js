// A line for whatever takes longer than a second: how far it is, and a button that cancels it.

import * as api from "./api.js";
import { el } from "./dom.js";

const LONG = 1000; // milliseconds
const AGAIN = 300;

/** @param {HTMLElement} holder */
export function waiting(holder) {
  const bar = el("progress", { "aria-label": "Done" });
  const text = el("span", { class: "quiet" });
  const stop = el("button", { type: "button", class: "plain", text: "Cancel", on: { click: api.cancel } });
  holder.replaceChildren(text, bar, stop);
  let timer = 0;

  async function look() {
    const now = await api.progress();
    if (!timer) return;
    holder.hidden = false;
    if (now) [bar.max, bar.value] = [now.of, now.done];
    else bar.removeAttribute("value"); // not known yet
    text.textContent = now ? `${now.unit} ${now.done} of ${now.of}` : "working …";
    timer = setTimeout(look, AGAIN);
  }

  return {
    start() { if (!timer && !api.held) timer = setTimeout(look, LONG); },
    end() {
      clearTimeout(timer);
      timer = 0;
      holder.hidden = true;
    },
  };
}
