// Colours of differences: blue is more, orange is less, by square roots, because most are small.

import { css, even } from "./colour.js";
import { el } from "./dom.js";

const NONE = 128; // the byte of no difference
const ARMS = {
  light: [["#ffffff", "#f2bf93", "#d5782f", "#9a4312", "#521c06"], ["#ffffff", "#a9cdea", "#5b8fd0", "#4550a8", "#33185f"]],
  dark: [["#14181f", "#5b3418", "#b06a2a", "#eaae62", "#fff0cf"], ["#14181f", "#1e4278", "#3f7fc4", "#8bbcf0", "#e6f4ff"]],
};

function arms(theme) {
  const [less, more] = ARMS[theme].map((stops) => rooted(even(stops)));
  return [less[NONE - 1], ...less.slice(1).reverse(), ...more];
}

const rooted = (table) => Array.from({ length: NONE }, (_, i) => table[Math.round(Math.sqrt(i / (NONE - 1)) * 255)]);

const TABLES = { light: arms("light"), dark: arms("dark") };

/** 256 × [red, green, blue]: 1 is −1, 128 nothing, 255 is +1. */
export const diverging = (theme) => TABLES[theme];

/** What a byte of a difference stands for. */
export const changeOf = (byte) => String(Math.round((10_000 * (byte - NONE)) / (NONE - 1)) / 10_000);

/** A change with its sign. */
export const signed = (by) => (Math.abs(by) < 0.005 ? "≈" : `${by > 0 ? "+" : "−"}${Math.abs(by).toFixed(2)}`);

export function signedLegend(theme, title) {
  const ramp = el("span", { class: "ramp" });
  ramp.style.backgroundImage = `linear-gradient(to right, ${diverging(theme).filter((_, i) => i && (i - NONE) % 12 === 0).map(css).join(", ")})`;
  return el("div", { class: "legend", role: "img", "aria-label": `Colours: ${title}, from −1, less, to +1, more` },
    el("span", { text: title }), el("span", { class: "end", text: "less −1" }), ramp, el("span", { class: "end", text: "+1 more" }));
}
