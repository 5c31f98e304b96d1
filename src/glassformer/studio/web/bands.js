// Whole vectors as bands of colour: a cell for each entry, blue above 0 and orange below.

import { words } from "./colour.js";
import { el, exact } from "./dom.js";
import { density, paint } from "./picture.js";
import { diverging } from "./signed.js";
import { tips } from "./tip.js";

const [TALL, WIDEST, ZERO] = [18, 22, 128]; // CSS pixels of a cell; the byte of 0

export const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);

/** Signed bytes as pixels. `name` tells two pictures of one size apart: equal nodes are not replaced. */
export function cells(bytes, rows, columns, [wide, tall], theme, props) {
  const canvas = el("canvas", { ...props, width: columns * wide, height: rows * tall, "data-drawn": `${theme} ${bytes.reduce((sum, byte, i) => (sum + byte * (i + 1)) % 1e9, 0)}` });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  paint(new Uint32Array(image.data.buffer), canvas.width, bytes, rows, columns, 0, 0, wide, words(diverging(theme)), tall);
  pen.putImageData(image, 0, 0);
  return canvas;
}

/**
 * A vector in as many lines as its room needs, the chosen entry framed.
 * @param {{name: string, values: number[], most?: number, room: number, theme: string, entry: number, pick: (entry: number) => void}} what `most`: where colours end
 */
export function band({ name, values, most = largest(values), room, theme, entry, pick }) {
  const k = density();
  const lines = Math.ceil(values.length / (room * k));
  const columns = Math.ceil(values.length / lines);
  const across = Math.min(room, columns * WIDEST);
  const wide = Math.ceil((across * k) / columns); // pixels of a cell; shown smaller, so that the band fills its room
  const size = [wide, Math.round((TALL * columns * wide) / across)];
  const bytes = Uint8Array.from({ length: lines * columns }, (_, i) => ZERO + Math.round((ZERO - 1) * Math.max(-1, Math.min(1, (values[i] ?? 0) / most))));
  const canvas = cells(bytes, lines, columns, size, theme, {});
  canvas.style.width = `${across}px`;
  const starts = Array.from({ length: lines }, (_, line) => line * columns);
  canvas.shows = [{ name, bytes: bytes.subarray(0, values.length), values, rows: starts.map((start) => (start ? `${name}, from ${start}` : name)), // for export
    columns: Array.from({ length: columns }, (_, i) => i), palette: words(diverging(theme)), scale: size[0], tall: size[1], left: 0, top: 0 }];
  const at = ({ offsetX, offsetY }) => Math.min(values.length - 1, Math.floor(offsetY / TALL) * columns + Math.max(0, Math.min(columns - 1, Math.floor((offsetX / across) * columns))));
  canvas.addEventListener("click", (event) => pick(at(event)));
  tips(canvas, (event) => `entry ${at(event)}: ${exact(values[at(event)])}`);
  const mark = el("i", { class: "entry", hidden: entry >= values.length });
  Object.assign(mark.style, { left: `${((entry % columns) / columns) * across}px`, top: `${Math.floor(entry / columns) * TALL}px`, width: `${across / columns}px`, height: `${TALL}px` });
  return el("div", { class: "band" }, canvas, mark);
}
