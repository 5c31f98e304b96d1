// A matrix of weights with its tokens along two sides; only the visible part is drawn.

import { el, share } from "./dom.js";
import { pane } from "./pane.js";
import { density, paint, scaleFor, valueAt, weightOf } from "./picture.js";
import { tips } from "./tip.js";

const LARGEST = 64; // CSS pixels of a cell
const STRETCHED = 40; // and of one that need not be a square
const LABEL = 15; // CSS pixels a label needs
const THIN = 10; // CSS pixels of a cell too small for a frame inside it

/**
 * @param {{name: string, pick?: (row: number, column: number) => void, say?: (value: number) => string}} options `say`: a value in the tooltip
 */
export function matrix(options) {
  let now = null;
  const top = el("div", { class: "labels across", "aria-hidden": "true" });
  const side = el("div", { class: "labels down", "aria-hidden": "true" });
  const mark = el("div", { class: "mark", "aria-hidden": "true" });
  const view = pane(draw, { role: "group", "aria-label": options.name, class: "matrix-pane" });
  view.node.append(mark);
  const node = el("div", { class: "matrix" }, el("span", { class: "corner" }), top, side, view.node);

  tips(view.node, (event) => at(event, (row, column) => {
    const value = Number(valueAt({ ...now, value: now.value ?? weightOf }, row * now.columns.length + column));
    return `${now.rows[row].text} → ${now.columns[column].text}: ${(options.say ?? share)(value)}`;
  }));
  view.node.addEventListener("click", (event) => at(event, options.pick));

  function at(event, act) {
    if (!now || !act) return undefined;
    const { x, y } = view.point(event);
    const [row, column] = [Math.floor(y / now.high), Math.floor(x / now.size)];
    const inside = row >= 0 && column >= 0 && row < now.rows.length && column < now.columns.length;
    return inside ? act(row, column) : undefined;
  }

  function draw(pen, { x, y, wide, high }) {
    if (!now) return;
    const { bytes, rows, columns, scale, tall, palette } = now;
    const texts = (names) => names.map(({ text }) => text);
    view.canvas.shows = [{ // for export
      name: options.name, bytes, rows: texts(rows), columns: texts(columns), palette, scale, tall, left: -x, top: -y, values: now.values, value: now.value ?? weightOf, power: now.power,
    }];
    const [r0, c0] = [Math.floor(y / tall), Math.floor(x / scale)];
    const r1 = Math.min(rows.length, Math.ceil((y + high) / tall));
    const c1 = Math.min(columns.length, Math.ceil((x + wide) / scale));
    if (r1 <= r0 || c1 <= c0) return;
    const part = new Uint8Array((r1 - r0) * (c1 - c0));
    for (let r = r0; r < r1; r++) {
      part.set(bytes.subarray(r * columns.length + c0, r * columns.length + c1), (r - r0) * (c1 - c0));
    }
    const image = pen.createImageData((c1 - c0) * scale, (r1 - r0) * tall);
    paint(new Uint32Array(image.data.buffer), image.width, part, r1 - r0, c1 - c0, 0, 0, scale, palette, tall);
    pen.putImageData(image, c0 * scale - x, r0 * tall - y);
    labels(side, rows, r0, r1, y, "top", now.high);
    labels(top, columns, c0, c1, x, "left", now.size);
  }

  /** Names of the visible rows; of small cells, of every few. */
  function labels(holder, names, from, to, offset, edge, size) {
    const least = Math.max(1, Math.ceil(LABEL / size));
    const every = now.round ? [1, 2, 5, 10, 20, 50, 100].find((n) => n >= least) : least;
    const middle = now.round ? 0 : Math.floor(every / 2); // no cut label at the edge
    const first = Math.ceil((from - middle) / every) * every + middle;
    const shown = [];
    for (let i = first; i < to; i += every) {
      const chosen = edge === "top" && i === now.chosen;
      const name = el("span", { class: `${names[i].special ? "special" : ""} ${chosen ? "chosen" : ""}`, text: names[i].text });
      name.style[edge] = `${(i + 0.5) * size - offset / density()}px`;
      shown.push(name);
    }
    holder.replaceChildren(...shown);
  }

  return {
    node, view,
    /** @param {{bytes: Uint8Array, rows: object[], columns: object[], palette: Uint32Array, chosen: number, zoom: number, round?: boolean, stretch?: boolean, values?: number[]}} what
     *   `round`: names are numbers; `stretch`: cells need not be squares; `values`: what the bytes are made of */
    show(what) {
      const k = density();
      const box = node.parentElement;
      const style = getComputedStyle(node);
      const [wide, high] = [
        box.clientWidth - parseFloat(style.getPropertyValue("--side")) * rem() - 2,
        Math.max(120, (boundedHeight(box) || 440) - parseFloat(style.getPropertyValue("--top")) * rem() - 2),
      ];
      const fit = Math.min(LARGEST * k, scaleFor(what.rows.length, what.columns.length, high * k, wide * k));
      const scale = what.zoom || fit;
      const filling = (room, count) => Math.max(1, Math.min(STRETCHED * k, Math.floor((room * k) / count)));
      const [across, down] = what.stretch ? [filling(wide, what.columns.length), filling(high, what.rows.length)] : [scale, scale];
      const moved = now?.chosen !== what.chosen;
      now = { ...what, scale: across, tall: down, size: across / k, high: down / k };
      const [full, tall] = [what.columns.length * now.size, what.rows.length * now.high];
      view.node.style.width = `${Math.min(full, wide)}px`;
      view.node.style.height = `${Math.min(tall, high)}px`;
      mark.hidden = what.chosen < 0;
      mark.style.top = `${what.chosen * now.high}px`;
      mark.style.height = `${now.high}px`;
      mark.style.width = `${full}px`;
      mark.classList.toggle("thin", now.high < THIN);
      view.resize(full, tall);
      if (moved) view.reveal(what.chosen * now.high, now.high);
      return scale;
    },
  };
}

/** A matrix in a card of its own, with a title above it and a foot below. */
export function matrixCard(label, options) {
  const cells = matrix(options);
  const [title, fit, foot] = [el("h2", {}), el("div", { class: "fit" }, cells.node), el("div", { class: "foot" })];
  return { cells, title, fit, foot, node: el("section", { class: "card cells", "aria-label": label }, title, fit, foot) };
}

const rem = () => parseFloat(getComputedStyle(document.documentElement).fontSize);

/** The box's own height, if the page gives it one (not on small screens). */
function boundedHeight(box) {
  return getComputedStyle(box).overflowY === "hidden" ? box.clientHeight : 0;
}
