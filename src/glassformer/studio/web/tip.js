// A tooltip at the cursor. What it says can be read elsewhere, so screen readers skip it.

import { el } from "./dom.js";

const AWAY = 14; // CSS pixels from the cursor
const node = el("div", { class: "tip", "aria-hidden": "true", hidden: true });

/** Shows a text beside the pointer; without a text, nothing. */
function showTip(event, text) {
  node.hidden = !text;
  if (!text) return;
  if (!node.isConnected) document.body.append(node);
  node.textContent = text;
  const { width, height } = node.getBoundingClientRect();
  const beside = (at, size, room) => (at + AWAY + size > room ? Math.max(0, at - AWAY - size) : at + AWAY);
  node.style.left = `${beside(event.clientX, width, innerWidth)}px`;
  node.style.top = `${beside(event.clientY, height, innerHeight)}px`;
}

/** While the pointer is over an element, shows what `say` makes of the event. */
export function tips(over, say) {
  over.addEventListener("pointermove", (event) => showTip(event, say(event)));
  for (const end of ["pointerleave", "pointercancel"]) over.addEventListener(end, () => { node.hidden = true; });
}
