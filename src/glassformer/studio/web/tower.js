// One stack of the model as a table: a column for each token, its rail; a row for each part of each layer.

import { colours, css, ink, words } from "./colour.js";
import { el, number, share, visible } from "./dom.js";
import { density, paint, weightOf } from "./picture.js";

const OPEN = 8; // of a deeper stack only the chosen layer is open
const BESIDE = 0.8; // of a layer's height: its picture may stand beside the names below it
const THUMB = 28; // CSS pixels of a layer's attention, at most
const FOLDED = 20; // CSS pixels: the height of a folded layer
const SHARES = { attention: 0.42, cross: 0.42, mlp: 0.17, block: 0.41 }; // of an open layer's height; cross-attention adds its own
const BEST = 3; // output probabilities of a token
const WIDEST = 0.62; // of a column: the widest rail

/** What the parts of a layer are called. */
export const PARTS = { attention: "attention", cross: "cross-attention", mlp: "MLP" };

/** Whether only a layer's result is shown. */
export const folds = (layers, layer, chosen) => layers > OPEN && layer !== chosen;

/**
 * The rows: the embedding, the parts of each layer, its result.
 * @returns {{part: string, layer: number|null, point: number, folded: boolean}[]} `point`: of the stack's points
 */
function rowsOf({ points }, chosen) {
  const layers = 1 + Math.max(...points.map(({ layer }) => layer ?? 0));
  return points.flatMap(({ part, layer }, point) => {
    const folded = layer !== null && folds(layers, layer, chosen);
    const row = { part, layer, point, folded };
    if (part !== "block") return folded ? [] : [row];
    return folded ? [row] : [{ ...row, part: "mlp" }, row];
  });
}

/** How high a stack is drawn: its open layers in units of one layer, its folded ones in pixels. */
export function heightOf({ points }, chosen) {
  const rows = rowsOf({ points }, chosen).filter(({ layer }) => layer !== null);
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
  const pen = canvas.getContext("2d");
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
  const where = layer === null ? "embedding" : part === "block" ? `after layer ${layer}` : `${PARTS[part]} of layer ${layer}`;
  return [
    `${quoted(token.text)}, ${where}`,
    added === undefined || part === "block" ? null : `adds ${number(added)}`,
    part === "mlp" ? null : `norm ${number(norm)}`,
    guess && part !== "mlp" ? `guess ${quoted(guess.text)} ${share(guess.p)}` : null,
  ].filter(Boolean).join(", ");
}

/** The guess on a rail, coloured by its probability; without a lens, the rail's norm. */
function printed(guess, norm, palette) {
  if (!guess) return el("span", { class: "guess plain", text: number(norm) });
  const colour = palette[Math.round(255 * Math.min(1, guess.p))];
  const node = el("span", { class: "guess", text: visible(guess.text) });
  node.style.background = css(colour);
  node.style.color = ink(colour);
  return node;
}

function cell(row, t, token, what) {
  const { stack, scale, guesses, palette } = what;
  const norm = stack.norm[row.point][t];
  const added = stack.added[row.point]?.[t];
  const guess = row.part === "block" || row.part === "embedding" ? guesses?.[row.layer ?? -1]?.[t] : null;
  const strip = (row.part === "mlp" || row.folded) && added !== undefined;
  return el("td", {}, el("button", {
    type: "button", class: "part", tabindex: "-1", "data-at": `${stack.name}.${row.part}.${row.layer ?? -1}.${t}`, "aria-label": described(row, token, norm, added, guess),
    vars: { w: scale.rail(norm).toFixed(4), ...(strip ? { p: scale.strip(added).toFixed(4) } : {}) },
  }, strip ? el("i", { class: "adds" }) : null, el("i", { class: "rail" }), row.part === "block" || row.part === "embedding" ? printed(guess, norm, palette) : null));
}

/** The heading of a row: its part, and for attention the picture of its layer, which opens it. */
function heading(row, what) {
  const { stack, means, theme, sides } = what;
  const { part, layer, folded } = row;
  if (layer === null) return el("th", { scope: "row" }, el("span", { class: "part-name", text: "embedding" }));
  const pictured = folded ? "attention" : part;
  const name = folded ? "" : { block: "residual", cross: "cross" }[part] ?? PARTS[part];
  const label = el("span", { class: "part-name" }, el("b", { text: folded || part === "attention" ? `L${layer}` : "" }), " ", el("span", { text: name }));
  const kind = pictured === "cross" ? "cross" : stack.name;
  const heads = pictured === "attention" || pictured === "cross" ? means[kind] : null;
  if (!heads) return el("th", { scope: "row" }, label);
  const [, rows, columns] = heads.shape;
  const area = rows * columns;
  const [asking, asked] = sides(kind);
  const picture = thumbnail(heads.bytes.subarray(layer * area, (layer + 1) * area), labels(asking, rows), labels(asked, columns),
    Math.min(THUMB, (folded ? FOLDED : what.high * (means.cross && kind !== "encoder" ? SHARES[part] : BESIDE)) - 4), theme, `${kind}, layer ${layer}, mean of its heads`);
  return el("th", { scope: "row" }, label, el("button", {
    type: "button", class: "thumb", tabindex: "-1", "data-at": `${stack.name}.${pictured}.${layer}.-1`, "aria-label": `${PARTS[pictured]} of layer ${layer}, mean of its heads`,
  }, picture));
}

/** The likeliest outputs at each token that has some. */
function outputs({ stack, tokens, predictions, sideOfOutput }) {
  const by = new Map(stack.name === sideOfOutput ? predictions.at.map(({ token, top }) => [token, top.slice(0, BEST)]) : []);
  if (!by.size) return [];
  return [el("tr", { class: "outputs" }, el("th", { scope: "row" }, el("span", { class: "part-name", text: "probabilities" })),
    ...tokens.map((token, t) => el("td", {}, by.has(t) ? el("button", {
      type: "button", class: "part", tabindex: "-1", "data-at": `${stack.name}.out.-1.${t}`,
      "aria-label": `${quoted(token.text)}, output: ${by.get(t).map(({ text, p }) => `${quoted(text)} ${share(p)}`).join(", ")}`,
    }, ...by.get(t).map(({ text, p }) => el("span", { class: "chance", vars: { p: String(p) } }, el("i", {}), el("span", { class: "word", text: visible(text) }), el("span", { class: "p", text: share(p) })))) : null)))];
}

/**
 * @param {object} what {stack, tokens, guesses (by layer, −1 is the embedding), means, predictions, sideOfOutput, chosen (layer), scale, theme, sides, title, high (of an open layer, in CSS pixels)}
 * @returns {HTMLTableElement}
 */
export function tower(what) {
  const { stack, tokens, title, chosen } = what;
  const shown = { ...what, palette: colours(what.theme) };
  const layered = ({ part, folded, layer }) => `${part} ${folded ? "folded" : ""} ${part === "attention" || folded ? "first" : ""} ${layer === null ? "start" : ""}`;
  return el("table", { class: "tower", role: "grid", "aria-label": title, "data-stack": stack.name, vars: Object.fromEntries([["folded", FOLDED], ...Object.entries(SHARES).map(([part, of]) => [part, of * what.high])].map(([part, high]) => [`high-${part}`, `${Math.round(high)}px`]).concat([["count", tokens.length]])) },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "part-name", text: stack.name })),
      ...tokens.map((token, t) => el("th", { scope: "col" }, el("button", {
        type: "button", class: `token ${token.special ? "special" : ""}`, tabindex: "-1", "data-at": `${stack.name}.token.-1.${t}`, "aria-label": `token ${t}: ${quoted(token.text)}`, text: visible(token.text),
      }))))),
    el("tbody", {}, ...rowsOf(stack, chosen).map((row) => el("tr", { class: layered(row), "data-layer": row.layer ?? -1 },
      heading(row, shown), ...tokens.map((token, t) => cell(row, t, token, shown)))), ...outputs(shown)));
}
