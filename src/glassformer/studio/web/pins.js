// Pinned heads: a row above the page, the same on every page.

import { el, swap } from "./dom.js";
import { headName } from "./head.js";

const WITH_HEADS = ["model", "map", "head", "numbers", "generate", "positions", "lab", "compare", "training"];

const placed = (pin) => { const [stack, layer, head] = pin.split("."); return { stack, layer: Number(layer), head: Number(head) }; };
const pinOf = ({ state: { stack, layer, head } }) => `${stack}.${layer}.${head}`;

/** Shows a pinned head: here, or on Head if this page shows none. */
const opened = ({ state: { page } }, pin) => ({ ...placed(pin), page: WITH_HEADS.includes(page) ? page : "head" });

/** Pins a head, or unpins it. */
export function togglePin(app, pin = pinOf(app)) {
  const others = app.state.pins.filter((each) => each !== pin);
  app.update({ pins: others.length < app.state.pins.length ? others : [...others, pin] });
}

export function nextPin(app) {
  const { pins } = app.state;
  if (pins.length) app.update(opened(app, pins[(pins.indexOf(pinOf(app)) + 1) % pins.length]));
}

/** @param {HTMLElement} holder */
export function showPins(app, holder) {
  const { pins } = app.state;
  holder.hidden = !pins.length;
  swap(holder, el("span", { class: "quiet", text: "Pinned heads" }), ...pins.map((pin) => {
    const { stack, layer, head } = placed(pin);
    const name = `${app.run?.stacks.length > 1 ? `${stack} ` : ""}${headName(layer, head)}`;
    return el("span", { class: "pin" },
      el("button", { type: "button", "aria-pressed": String(pin === pinOf(app)), title: "Show this head", text: name, asks: !app.holds(opened(app, pin)), on: { click: () => app.update(opened(app, pin)) } }),
      el("button", { type: "button", class: "drop", "aria-label": `unpin ${name}`, text: "×", on: { click: () => togglePin(app, pin) } }));
  }));
}
