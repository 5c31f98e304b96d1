// One stack of the model as a grid: a column for each token, its rail; a row for each part of each layer.

import { colours, css, ink, words } from "./colour.js";
import { el, number, share, visible } from "./dom.js";
import { grid } from "./grid.js";
import { density, paint, weightOf } from "./picture.js";

const OPEN = 8; // of a deeper stack only the chosen layer is open
const BESIDE = 0.8; // of a layer's height: its picture may stand beside the names below it
const THUMB = 28; // CSS pixels of a layer's attention, at most
const BELOW = 2; // CSS pixels from a row's top to its picture
const FOLDED = 20; // CSS pixels: the height of a folded layer
const SHARES = { attention: 0.42, cross: 0.42, mlp: 0.17, block: 0.41 }; // of an open layer's height; cross-attention adds its own
const TALL = { token: 2.1, embedding: 1.7, out: 3.9 }; // rem: rows that every stack has
const BEST = 3; // output probabilities of a token
const SHORT = 3; // letters that fit any column; what may be cut off costs time in every frame
const WIDEST = 0.62; // of a column: the widest rail

/** What the parts of a layer are called. */
export const PARTS = { attention: "attention", cross: "cross-attention", mlp: "MLP" };

/** Whether only a layer's result is shown. */
export const folds = (layers, layer, chosen) => layers > OPEN && layer !== chosen;

/**
 * The rows: the embedding, the parts of each layer, its result.
 * @returns {{part: string, layer: number, point: number, folded: boolean}[]} `layer`: −1 is the embedding; `point`: of the stack's points
 */
export function rowsOf({ points }, chosen) {
  const layers = 1 + Math.max(...points.map(({ layer }) => layer ?? 0));
  return points.flatMap(({ part, layer: of }, point) => {
    const layer = of ?? -1;
    const folded = layer >= 0 && folds(layers, layer, chosen);
    const row = { part, layer, point, folded };
    if (part !== "block") return folded ? [] : [row];
    return folded ? [row] : [{ ...row, part: "mlp" }, row];
  });
}

/** How high a stack is drawn: its open layers in units of one layer, its folded ones in pixels. */
export function heightOf({ points }, chosen) {
  const rows = rowsOf({ points }, chosen).filter(({ layer }) => layer >= 0);
  return { units: rows.reduce((sum, { part, folded }) => sum + (folded ? 0 : SHARES[part]), 0), pixels: FOLDED * rows.filter(({ folded }) => folded).length };
}

/** How a number between 0 and the largest is drawn; square roots, because norms differ by orders of magnitude. */
export function widths(stacks) {
  const most = Math.max(...stacks.flatMap(({ norm }) => norm.flat()), 1e-9);
  const added = Math.max(...stacks.flatMap(({ added: all }) => all.filter(Boolean).flat()), 1e-9);
  return { most, added, rail: (norm) => WIDEST * Math.sqrt(norm / most), strip: (norm) => Math.sqrt(norm / added) };
}

/** A picture of bytes, so that it fits a square; for export it knows its numbers. */
export function thumbnail(bytes, rows, columns, size, theme, name) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const k = density();
  const scale = Math.max(1, Math.ceil((size * k) / Math.max(rows.length, columns.length))); // slightly blurred rather than small
  [canvas.width, canvas.height] = [columns.length * scale, rows.length * scale];
  const fit = Math.min(1, (size * k) / Math.max(canvas.width, canvas.height)) / k;
  canvas.style.width = `${canvas.width * fit}px`;
  canvas.style.height = `${canvas.height * fit}px`;
  const palette = words(colours(theme, true)); // a mean has small weights
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  const image = pen.createImageData(canvas.width, canvas.height);
  paint(new Uint32Array(image.data.buffer), canvas.width, bytes, rows.length, columns.length, 0, 0, scale, palette);
  pen.putImageData(image, 0, 0);
  canvas.shows = [{ name, bytes, rows, columns, palette, scale, left: 0, top: 0, value: weightOf }];
  return canvas;
}

/** The names of a picture's rows or columns: tokens; of a long text, numbers. */
export const labels = (tokens, count) => (tokens.length === count ? tokens.map(({ text }) => text) : Array.from({ length: count }, (_, i) => String(i)));

const quoted = (text) => `“${visible(text)}”`;

/** What a cell stands for, in words: its tooltip and its label for screen readers. */
function described({ part, layer }, token, norm, added, guess) {
  const where = layer < 0 ? "embedding" : part === "block" ? `after layer ${layer}` : `${PARTS[part]} of layer ${layer}`;
  return [
    `${quoted(token.text)}, ${where}`,
    added === undefined || part === "block" ? null : `adds ${number(added)}`,
    part === "mlp" ? null : `norm ${number(norm)}`,
    guess && part !== "mlp" ? `guess ${quoted(guess.text)} ${share(guess.p)}` : null,
  ].filter(Boolean).join(", ");
}

/** Whether the lens is printed on the rails of a row. */
const printsGuess = ({ part }) => part === "block" || part === "embedding";

/** The guess on a rail, coloured by its probability; without a lens, the rail's norm. */
function printed(guess, norm, palette) {
  if (!guess) return el("span", { class: "guess plain", text: number(norm) });
  const colour = palette[Math.round(255 * Math.min(1, guess.p))];
  const node = el("span", { class: guess.text.length > SHORT ? "guess long" : "guess", text: visible(guess.text) });
  node.style.background = css(colour);
  node.style.color = ink(colour);
  return node;
}

/** Fills the cell of a part: its rail, what an MLP adds, and what is printed on the rail. */
function dressPart(node, row, t, { stack, tokens, scale, guesses, palette }) {
  const norm = stack.norm[row.point][t];
  const added = stack.added[row.point]?.[t];
  const guess = printsGuess(row) ? guesses?.[row.layer]?.[t] : null;
  node.ariaLabel = described(row, tokens[t], norm, added, guess);
  node.replaceChildren(...[
    (row.part === "mlp" || row.folded) && added !== undefined ? el("i", { class: "adds", vars: { p: scale.strip(added).toFixed(4) } }) : null,
    el("i", { class: "rail", vars: { w: scale.rail(norm).toFixed(4) } }),
    printsGuess(row) ? printed(guess, norm, palette) : null].filter(Boolean));
}

/** Fills the cell of the likeliest outputs at a token. */
function dressOutput(node, { best }, t, { tokens }) {
  node.ariaLabel = `${quoted(tokens[t].text)}, output: ${best.get(t).map(({ text, p }) => `${quoted(text)} ${share(p)}`).join(", ")}`;
  node.replaceChildren(...best.get(t).map(({ text, p }) => el("span", { class: "chance", vars: { p: String(p) } }, el("i", {}), el("span", { class: "word", text: visible(text) }), el("span", { class: "p", text: share(p) }))));
}

function dressToken(node, row, t, { tokens }) {
  node.classList.add("token", ...(tokens[t].special ? ["special"] : []));
  node.ariaLabel = `token ${t}: ${quoted(tokens[t].text)}`;
  node.textContent = visible(tokens[t].text);
}

/** The heading of a row: its part, and for attention the picture of its layer, which opens it. */
function heading(row, what) {
  const { stack } = what;
  const { part, layer, folded, pictured } = row;
  const name = el("span", { class: "part-name" }, layer < 0 ? null : el("b", { text: row.kind.includes("first") ? `L${layer}` : "" }), el("span", { text: row.title }));
  const node = el("div", { role: part === "token" ? "columnheader" : "rowheader" }, name);
  if (!pictured) return node;
  const shows = folded ? "attention" : part;
  const button = el("button", { type: "button", class: "thumb", tabindex: "-1", "data-at": `${stack.name}.${shows}.${layer}.-1`, "aria-label": `${PARTS[shows]} of layer ${layer}, mean of its heads` });
  const { wide, tall } = pictureSize(row, what);
  Object.assign(button.style, { width: `${wide}px`, height: `${tall}px` });
  node.append(button);
  return node;
}

/** The size of a layer's picture in CSS pixels. */
function pictureSize({ part, folded, pictured }, { means, high }) {
  const [, rows, columns] = means[pictured].shape;
  const room = folded ? FOLDED : high * (means.cross && pictured !== "encoder" ? SHARES[part] : BESIDE);
  const cell = Math.min(THUMB, room - 4) / Math.max(rows, columns);
  return { cell, wide: cell * columns, tall: cell * rows };
}

/** The pictures of all layers' attention, each at its row: one canvas, because many are slow to show. For export it knows its numbers. */
function pictures(placed, what) {
  const { means, theme, sides } = what;
  const [k, last] = [density(), placed[placed.length - 1]];
  const canvas = el("canvas", { class: "thumbs", "aria-hidden": "true", width: THUMB * k, height: (last.top + last.high) * k });
  Object.assign(canvas.style, { width: `${THUMB}px`, height: `${last.top + last.high}px` });
  const [pen, one] = [canvas.getContext("2d"), el("canvas")];
  const palette = words(colours(theme, true)); // a mean has small weights
  canvas.shows = placed.filter(({ pictured }) => pictured).map((row) => {
    const { bytes, shape: [, rows, columns] } = means[row.pictured];
    const [asking, asked] = sides(row.pictured);
    const layer = bytes.subarray(row.layer * rows * columns, (row.layer + 1) * rows * columns);
    const { cell, wide, tall } = pictureSize(row, what);
    const [left, top] = [(THUMB - wide) * k, (row.top + BELOW) * k];
    const image = new ImageData(columns, rows);
    paint(new Uint32Array(image.data.buffer), columns, layer, rows, columns, 0, 0, 1, palette);
    [one.width, one.height] = [columns, rows];
    one.getContext("2d").putImageData(image, 0, 0);
    pen.imageSmoothingEnabled = cell * k < 1;
    pen.drawImage(one, left, top, wide * k, tall * k);
    return { name: `${row.pictured}, layer ${row.layer}, mean of its heads`, bytes: layer, rows: labels(asking, rows), columns: labels(asked, columns), palette, scale: cell * k, left, top, value: weightOf };
  });
  return canvas;
}

/** A layer's row: its name, and the stack whose attention is pictured beside it. */
function layerRow(row, { stack: { name }, means }) {
  const { part, layer, folded } = row;
  const first = layer >= 0 && (folded || part === "attention");
  const own = part === "cross" ? "cross" : first ? name : null;
  const pictured = own && means[own] ? own : null;
  const title = folded ? "" : { block: "residual", cross: "cross" }[part] ?? PARTS[part] ?? part;
  return { ...row, title, pictured, kind: `${part} ${folded ? "folded" : ""} ${first ? "first" : ""}`, has: (t) => t >= 0 || pictured !== null };
}

/** All rows at their places: tokens, parts, outputs. */
function placed(what) {
  const { stack, predictions, sideOfOutput, chosen, em, high } = what;
  const best = new Map(stack.name === sideOfOutput ? predictions.at.map(({ token, top }) => [token, top.slice(0, BEST)]) : []);
  const rows = [
    { part: "token", layer: -1, title: stack.name, kind: "token-row", has: (t) => t >= 0 },
    ...rowsOf(stack, chosen).map((row) => layerRow(row, what)),
    ...(best.size ? [{ part: "out", layer: -1, title: "probabilities", kind: "out", best, has: (t) => best.has(t) }] : []),
  ];
  let end = 0;
  return rows.map((row) => {
    const tall = Math.round(row.folded ? FOLDED : row.layer < 0 ? TALL[row.part] * em : SHARES[row.part] * high);
    end += tall;
    return { ...row, top: end - tall, high: tall };
  });
}

/**
 * @param {HTMLElement} scroller around the towers
 * @param {object} what {stack, tokens, guesses (by layer, −1 is the embedding), means, predictions, sideOfOutput, chosen (layer), scale, theme, sides, title, and in CSS pixels: em, high (of an open layer), column, names}
 */
export function tower(scroller, what) {
  const { stack, tokens, title, column, names } = what;
  const shown = { ...what, palette: colours(what.theme) };
  let choice = { layer: null, token: null };
  const dress = (node, row, t) => {
    node.classList.add("part");
    node.dataset.at = `${stack.name}.${row.part}.${row.layer}.${t}`;
    ({ token: dressToken, out: dressOutput }[row.part] ?? dressPart)(node, row, t, shown);
  };
  const mark = (node, row, t) => {
    const [ofLayer, ofToken] = [row.layer === choice.layer, t === choice.token];
    node.classList.toggle("of-layer", t === undefined && ofLayer);
    node.classList.toggle("of-token", ofToken);
    node.ariaSelected = ofToken && ofLayer && row.part === "block" ? "true" : null;
  };
  const rows = placed(shown);
  const made = grid(scroller, { label: title, rows, beside: pictures(rows, shown), columns: tokens.length, column, names, heading: (row) => heading(row, shown), dress, mark });
  return {
    ...made, name: stack.name,
    rowAt: (part, layer) => made.rows.find((row) => row.part === part && row.layer === layer),
    /** Marks a layer and a token, or with null none. */
    choose(layer, token) {
      choice = { layer, token };
      made.remark();
    },
    /** Prints the lens' guesses on the rails. */
    guess(guesses) {
      if (shown.guesses === guesses) return;
      shown.guesses = guesses;
      made.redress(printsGuess);
    },
  };
}
