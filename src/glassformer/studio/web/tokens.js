// Tokens: which belong to a stack's rows and columns, and how pieces and special ones are merged.

import { el, visible } from "./dom.js";

/** The queries (rows) and the keys (columns). */
export function sides(run, stack) {
  const { encoder, decoder } = run.tokens.queries;
  if (stack === "cross") return [decoder, encoder];
  const own = stack === "encoder" ? encoder : decoder;
  return [own, own];
}

/**
 * What is shown as one row or column: the places of its tokens and its text.
 * @returns {{text: string, of: number[], special: boolean}[]}
 */
export function groups(tokens, { special, pieces }) {
  const shown = [];
  tokens.forEach((token, i) => {
    if (token.special && !special) return;
    const last = shown[shown.length - 1];
    const sameWord = !pieces && last && token.word !== null
      && last.word === token.word && last.of[last.of.length - 1] === i - 1;
    if (sameWord) {
      last.of.push(i);
      last.text += token.text;
    } else {
      shown.push({ text: token.text, of: [i], special: token.special, word: token.word });
    }
  });
  return shown.map((each) => ({ ...each, text: visible(each.text) }));
}

/**
 * The matrix of groups: weights are summed over keys and averaged over queries.
 * @param {Uint8Array} bytes of all tokens, `width` columns; a weight is (byte / 255) ** power
 */
export function gather(bytes, width, rows, columns, power = 1) {
  if (rows.length * columns.length === bytes.length) return bytes;
  const gathered = new Uint8Array(rows.length * columns.length);
  rows.forEach((row, r) => columns.forEach((column, c) => {
    let sum = 0;
    for (const i of row.of) for (const j of column.of) sum += bytes[i * width + j] ** power;
    gathered[r * columns.length + c] = Math.min(255, Math.round((sum / row.of.length) ** (1 / power)));
  }));
  return gathered;
}

/** A strip of buttons, one a token. `marks` are classes for some of them, `tints` colours: {tint: 0 … 1, title}. */
export function strip(label, tokens, chosen, choose, marks = {}, asks = false, tints = {}) {
  return el("div", { class: "strip", role: "group", "aria-label": label },
    ...tokens.map((token, i) => el("button", {
      type: "button",
      class: [token.special ? "special" : "", marks[i] ?? "", tints[i] ? "tinted" : ""].join(" "),
      "aria-pressed": String(i === chosen),
      title: `token ${i}${tints[i] ? `: ${tints[i].title}` : ""}`,
      vars: tints[i] && { tint: tints[i].tint },
      asks,
      text: visible(token.text),
      on: { click: () => choose(i) },
    })));
}

/**
 * Scrolls a list just as far as its chosen entry needs; the page stays where it is. `scrollIntoView` would
 * scroll the page as well, and in Chromium it also moves the place from which the Tab key goes on.
 */
export function intoSight(list) {
  const chosen = list?.querySelector("[aria-pressed=true], [aria-current]");
  if (!chosen) return;
  const [room, box] = [list.getBoundingClientRect(), chosen.getBoundingClientRect()];
  const [top, left] = [room.top + list.clientTop, room.left + list.clientLeft];
  list.scrollTop += nearest(box.top - top, box.bottom - top - list.clientHeight);
  list.scrollLeft += nearest(box.left - left, box.right - left - list.clientWidth);
}

/** How far to scroll so that an entry is inside. */
const nearest = (start, end) => (start < 0 ? start : Math.max(0, Math.min(start, end)));
