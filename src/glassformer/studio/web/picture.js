// From bytes to pixels by the colour table.

import { colours, css } from "./colour.js";
import { el } from "./dom.js";

const INSIDE = 0.99; // of all weights

/**
 * Paints one picture into the pixels of a larger one, each byte as a square of `scale` pixels, or `tall` of them high.
 * @param {Uint32Array} pixels of an image that is `width` wide
 * @param {Uint8Array} bytes rows × columns
 * @param {Uint32Array} table 256 words
 */
export function paint(pixels, width, bytes, rows, columns, left, top, scale, table, tall = scale) {
  for (let r = 0; r < rows; r++) {
    const start = (top + r * tall) * width + left;
    let at = start;
    for (let c = 0; c < columns; c++, at += scale) {
      pixels.fill(table[bytes[r * columns + c]], at, at + scale);
    }
    for (let again = 1; again < tall; again++) {
      pixels.copyWithin(start + again * width, start, start + columns * scale);
    }
  }
}

/** Whole device pixels for one CSS pixel. */
export const density = () => Math.max(1, Math.floor(window.devicePixelRatio));

/** How many pixels a cell of a picture may have so that it fits; at least one. */
export function scaleFor(rows, columns, high, wide) {
  return Math.max(1, Math.floor(Math.min(high / rows, wide / columns)));
}

/** What a byte stands for. */
export const weightOf = (byte, power = 1) => String(Math.round(10_000 * (byte / 255) ** power) / 10_000);

/** Where the colours of a picture end: at 1, or in a long text at what 99 % of its weights stay below. */
export function rangeOf(bytes, power) {
  if (power === 1) return { power, top: 1, end: "1" };
  const counts = new Uint32Array(256);
  for (const byte of bytes) counts[byte]++;
  let left = (1 - INSIDE) * bytes.length;
  let byte = 255;
  while (byte > 1 && left >= counts[byte]) left -= counts[byte--];
  const top = (byte / 255) ** power;
  return { power, top, end: `≥ ${top < 0.01 ? top.toPrecision(1) : top.toFixed(2)}` };
}

/** The text of a picture's cell: its own number, where it is known, else what its byte stands for. */
export const valueAt = ({ values, bytes, value, power }, i) => String(values ? values[i] : value(bytes[i], power));

/** What the colours mean: from `low` to `high`. */
export function legend(theme, faint, low, high, title) {
  const steps = colours(theme, faint).filter((_, i) => i % 15 === 0).map(css);
  const ramp = el("span", { class: "ramp" });
  ramp.style.backgroundImage = `linear-gradient(to right, ${steps.join(", ")})`;
  return el("div", { class: "legend", role: "img", "aria-label": `Colours: ${title}, from ${low} to ${high}` },
    el("span", { text: title }), el("span", { class: "end", text: low }), ramp, el("span", { class: "end", text: high }));
}
