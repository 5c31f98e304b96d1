// A linear map as matrix times vector: an entry of the result is a row of W times x.

import * as api from "./api.js";
import { cells, largest } from "./bands.js";
import { words } from "./colour.js";
import { choice, el, exact, visible } from "./dom.js";
import { nameOf } from "./formulas.js";
import { density } from "./picture.js";
import { changeOf, diverging } from "./signed.js";
import { tips } from "./tip.js";

const HIGH = 200; // CSS pixels of a matrix, at most
const CELL = 12;

/** The names of the matrices in some formulas, as in ["of", "W_Q", "x"]; the one that is used first, first. */
export function matricesOf(formula) {
  if (!Array.isArray(formula)) return [];
  return [...formula.flatMap(matricesOf), ...(formula[0] === "of" ? [formula[1]] : [])];
}

/** What the figure needs: the product with one row, and the matrix's picture. */
export const asksOf = ({ run }, at, query, name, row) => [
  api.json(`runs/${run}/product/${at.join("/")}/${query}/${name}/${row}`), api.bytes(`runs/${run}/matrix/${at.join("/")}/${name}`)];

const signedBytes = (values) => Uint8Array.from(values, (value) => 128 + Math.round(127 * value / largest(values)));

/** x above W, W x beside it, one row chosen; below, that row times x. */
export function figure(app, at, names, name, [product, { bytes, shape: [rows, columns] }], asked) {
  const k = density();
  const theme = app.theme();
  const { row, x, y, weights, bias, key } = product;
  const size = Math.max(1, Math.min(CELL * k, Math.floor(Math.min((at.room * k) / columns, (HIGH * k) / rows))));
  const [wide, high] = [columns, rows].map((count) => `${(count * size) / k}px`);
  const matrix = cells(bytes, rows, columns, [size, size], theme, { role: "img", "aria-label": `${name}: ${product.rows} rows, ${x.length} columns` });
  matrix.shows = [{ name, bytes, rows: Array.from({ length: rows }, (_, i) => i), columns: Array.from({ length: columns }, (_, i) => i), palette: words(diverging(theme)), scale: size, left: 0, top: 0, value: changeOf }]; // for export
  const above = cells(signedBytes(x), 1, x.length, [1, 1], theme, { class: "over", role: "img", "aria-label": "x" });
  const beside = cells(signedBytes(y), y.length, 1, [1, 1], theme, { class: "beside", role: "img", "aria-label": `${name} x` });
  for (const [node, a, b] of [[matrix, wide, high], [above, wide, ""], [beside, "", high]]) Object.assign(node.style, { width: a, height: b });
  const rowAt = ({ offsetY, target }) => Math.max(0, Math.min(product.rows - 1, Math.floor((offsetY / target.clientHeight) * product.rows)));
  for (const node of [matrix, beside]) {
    node.addEventListener("click", (event) => at.pick(rowAt(event)));
    tips(node, (event) => `row ${rowAt(event)}: ${exact(y[rowAt(event)])}`);
  }
  const line = el("i", { class: "line" });
  line.style.top = `${((row + 0.5) / product.rows) * ((rows * size) / k)}px`;
  const of = key === null ? "" : ` of “${visible(asked[key].text)}”`;
  const sum = weights.reduce((total, w, i) => total + w * x[i], 0);
  return el("section", { class: "product", "aria-label": "Matrix times vector" },
    el("h3", {}, nameOf(name), ` · x${of}`, el("span", { class: "quiet", text: `  ${product.rows} × ${x.length}; of a large matrix each cell is its largest entry nearby` })),
    names.length > 1 ? choice("Matrix", names.map((each) => [each, each]), name, (to) => app.update({ matrix: to }), (to) => !app.holds({ matrix: to })) : null,
    el("div", { class: "times" }, above, el("span"), el("div", { class: "of" }, matrix, line), beside),
    at.vector(name, `row ${row}`, weights), at.vector("x", of.trim(), x), at.vector("W ⊙ x", "", weights.map((w, i) => w * x[i])),
    el("p", { class: "worked" }, el("b", { text: `${exact(sum)}${bias === null ? "" : ` + ${exact(bias)} = ${exact(y[row])}`}` }), el("span", { class: "quiet", text: `all ${x.length} products added${bias === null ? "" : ", plus b"}: entry ${row} of ${name} x${bias === null ? "" : " + b"}` })));
}
