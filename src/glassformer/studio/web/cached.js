// The KV cache at one step: what is kept, written and read.

import { el, key, table } from "./dom.js";

const CELLS = 96; // at most; of a longer text each stands for several tokens

const exactly = (value, unit) => `${value.toLocaleString("en-US")} ${unit}${value === 1 ? "" : "s"}`;

/** Squares for tokens: those read back, those new, and free room. */
function cells(label, kept, fresh, capacity) {
  const each = Math.max(1, Math.ceil(capacity / CELLS));
  const states = Array.from({ length: Math.ceil(capacity / each) }, (_, i) => {
    const [from, to] = [i * each, Math.min(capacity, (i + 1) * each)];
    if (from >= kept) return "free";
    return to > kept - fresh ? "new" : "old";
  });
  return el("div", { class: "store", role: "img", "aria-label": label }, ...states.map((state) => el("i", { class: state })));
}

/**
 * @param {object} now {kept, written, read, source, bytes} of this step
 * @param {object} room of the whole cache
 * @param {number} texts generated side by side
 * @param {string} again what it would cost without a cache
 */
export function cached(now, room, texts, again) {
  const kept = now.kept / texts;
  const formula = `${room.layers} layers × ${room.heads} heads × (${room.key} + ${room.value}) numbers × ${room.item} bytes`;
  const beams = texts > 1 ? `, in ${texts} beams` : "";
  return el("section", { class: "card cached", "aria-label": "The cache" },
    el("h2", {}, "The cache", el("span", { class: "quiet", text: "keys and values of what was read" })),
    cells(`${exactly(kept, "token")} of ${room.capacity}, ${now.written / texts} of them new`, kept, now.written / texts, room.capacity),
    now.source ? cells(`the source: ${exactly(now.source, "token")}, written once`, now.source, now.read ? 0 : now.source, now.source) : null,
    key(["new", "written now"], ["old", "read back"], ["free", "free"]),
    table("The cache at this step", ["", ""], [
      ["kept", `${exactly(now.kept, "token")}${beams}`],
      ["written now", exactly(now.written, "token")],
      ["read back now", exactly(now.read, "token")],
      ...(now.source ? [[`source, ${now.read ? "read back" : "written"}`, exactly(now.source, "token")]] : []),
      ["one token", exactly(room.token, "byte")],
      ["in use", exactly(now.bytes, "byte")],
      ["reserved", exactly(room.reserved, "byte")],
    ], { class: "facts" }),
    el("p", { class: "quiet", text: `One token: ${formula}.` }),
    again ? el("p", { class: "quiet", text: again }) : null);
}
