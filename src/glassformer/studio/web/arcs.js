// Lines from each query to its keys.

import { share } from "./dom.js";
import { pane } from "./pane.js";
import { density } from "./picture.js";
import { tips } from "./tip.js";

const MANY = 8; // lines a token when the text is long
const LONG = 64;
const TOLD = 3; // keys in the tooltip

/** @param {(row: number) => void} pick */
export function arcs(pick) {
  let now = null;
  const view = pane(draw, { role: "group", "aria-label": "Lines from tokens to what they look at", class: "arcs-pane" });
  let pointed = -1;

  const rowAt = (event) => {
    const row = Math.floor(view.point(event).y / now.step);
    return row < now.rows.length ? row : -1;
  };
  tips(view.node, (event) => {
    if (!now) return "";
    pointed = rowAt(event);
    view.redraw();
    const best = pointed < 0 ? [] : now.strongest(pointed).toSorted((a, b) => b[1] - a[1]).slice(0, TOLD);
    return best.length ? `${now.rows[pointed].text} → ${best.map(([c, weight]) => `${now.columns[c].text} ${share(weight)}`).join(", ")}` : "";
  });
  view.node.addEventListener("pointerleave", () => { pointed = -1; if (now) view.redraw(); });
  view.node.addEventListener("click", (event) => { const row = now ? rowAt(event) : -1; if (row >= 0) pick(row); });

  function draw(pen, { y, wide, high }) {
    if (!now) return;
    const k = density();
    const style = getComputedStyle(view.node);
    const [step, edge] = [now.step * k, Math.min(0.34 * wide, now.edge * k)];
    const active = pointed >= 0 ? pointed : now.chosen;
    const middle = (i) => (i + 0.5) * step - y;
    const seen = (i) => middle(i) > -step && middle(i) < high + step;
    const colours = { line: style.getPropertyValue("--line"), text: style.color, quiet: style.getPropertyValue("--quiet") };
    for (let n = 0; n < now.rows.length * now.layers.length; n++) {
      const [r, { of, colour }] = [n % now.rows.length, now.layers[Math.floor(n / now.rows.length)]];
      if (!seen(r)) continue;
      pen.strokeStyle = colour ?? colours.line;
      for (const [c, weight] of of(r)) {
        pen.globalAlpha = r === active ? 0.35 + 0.65 * weight : 0.08 + 0.5 * weight;
        pen.lineWidth = k * (r === active ? 1 + 5 * weight : 0.75 + 2 * weight);
        pen.beginPath();
        pen.moveTo(edge, middle(r));
        pen.bezierCurveTo(wide / 2, middle(r), wide / 2, middle(c), wide - edge, middle(c));
        pen.stroke();
      }
    }
    pen.globalAlpha = 1;
    const looked = new Map(active >= 0 && active < now.rows.length ? now.strongest(active) : []);
    pen.textBaseline = "middle";
    const write = (names, x, align, strong) => names.forEach((name, i) => {
      if (!seen(i)) return;
      pen.textAlign = align;
      pen.font = `${strong(i) ? "600 " : ""}${now.font * k}px ${style.fontFamily}`;
      pen.fillStyle = name.special && !strong(i) ? colours.quiet : colours.text;
      pen.fillText(clipped(pen, name.text, edge - 10 * k), x, middle(i));
    });
    write(now.rows, edge - 6 * k, "right", (i) => i === active);
    write(now.columns, wide - edge + 6 * k, "left", (i) => looked.has(i));
  }

  return {
    node: view.node,
    /** @param {{bytes: Uint8Array, rows: object[], columns: object[], threshold: number, chosen: number, heads?: {colour: string, bytes: Uint8Array}[]}} what */
    show(what) {
      const most = Math.max(what.rows.length, what.columns.length);
      const font = parseFloat(getComputedStyle(view.node).fontSize);
      const step = Math.max(font * 1.35, Math.min(font * 4, (view.node.clientHeight - 2) / most));
      const strongest = strongestOf(what);
      const moved = now?.chosen !== what.chosen;
      const layers = what.heads?.map((each) => ({ colour: each.colour, of: strongestOf({ ...what, ...each }) })) ?? [{ of: strongest }];
      now = { ...what, step, font, edge: font * 6.5, strongest, layers };
      view.resize(Math.max(0, view.node.clientWidth), Math.floor(step * most));
      if (moved) view.reveal(what.chosen * step, step);
    },
  };
}

/** For a row: the columns above the threshold with their weights; the largest few of a long text. */
function strongestOf({ bytes, columns, threshold, power = 1 }) {
  const least = Math.max(1, 255 * threshold ** (1 / power));
  return (r) => {
    const links = [];
    for (let c = 0; c < columns.length; c++) {
      const byte = bytes[r * columns.length + c];
      if (byte >= least) links.push([c, (byte / 255) ** power]);
    }
    return columns.length <= LONG ? links : links.sort((a, b) => b[1] - a[1]).slice(0, MANY);
  };
}

function clipped(pen, text, wide) {
  if (pen.measureText(text).width <= wide) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > wide) end--;
  return `${text.slice(0, end)}…`;
}
