// Points in two dimensions as SVG: dots with names, and paths.

import { svg } from "./charts.js";
import { visible } from "./dom.js";
import { tips } from "./tip.js";

const EDGE = 34; // CSS pixels around the points
const LETTER = 7.2; // CSS pixels of a letter, about
const LINE = 14;

/** One scale for both directions, so that distances can be compared. */
function scaleOf(points, wide, high) {
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [low, most] = [Math.min, Math.max].map((end) => [end(...xs), end(...ys)]);
  const unit = Math.min((wide - 2 * EDGE) / (most[0] - low[0] || 1), (high - 2 * EDGE) / (most[1] - low[1] || 1));
  return ([x, y]) => [wide / 2 + (x - (low[0] + most[0]) / 2) * unit, high / 2 - (y - (low[1] + most[1]) / 2) * unit];
}

/** A name beside its dot where nothing else stands; empty if there is no room. */
function placed(taken, [x, y], text, wide) {
  const long = text.length * LETTER;
  for (const [left, top] of [[x + 6, y - LINE / 2], [x - 6 - long, y - LINE / 2], [x - long / 2, y - LINE - 5], [x - long / 2, y + 5]]) {
    const box = [left, top, left + long, top + LINE];
    const free = left > 0 && box[2] < wide && taken.every(([a, b, c, d]) => box[2] < a || c < left || box[3] < b || d < top);
    if (!free) continue;
    taken.push(box);
    return { x: left, y: top + LINE - 3, text };
  }
  return {};
}

/**
 * @param {{label: string, wide: number, high: number, room: number[][], dots: {xy: number[], name: string, title: string, kind: string, path?: number[][]}[], pick: (dot: number) => void}} what
 *   `room`: all points that must fit; the kinds are chosen, same and other
 */
export function scatter({ label, wide, high, room, dots, pick }) {
  const at = scaleOf(room, wide, high);
  const rank = { chosen: 0, same: 1, other: 2 };
  const order = dots.map((dot, i) => ({ ...dot, i, place: at(dot.xy) })).sort((a, b) => rank[a.kind] - rank[b.kind]);
  const taken = order.map(({ place: [x, y] }) => [x - 3, y - 3, x + 3, y + 3]);
  const names = order.map(({ place, name, kind }) => svg("text", { class: kind, ...placed(taken, place, visible(name), wide) }));
  const near = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const far = ({ place: [x, y] }) => Math.hypot(x - event.clientX + box.left, y - event.clientY + box.top);
    return order.toSorted((a, b) => far(a) - far(b))[0];
  };
  const node = svg("svg", { class: "chart scatter", role: "img", "aria-label": label, width: wide, height: high, on: { click: (event) => pick(near(event).i) } },
    svg("line", { class: "grid", x1: 0, x2: wide, y1: at([0, 0])[1], y2: at([0, 0])[1] }),
    svg("line", { class: "grid", x1: at([0, 0])[0], x2: at([0, 0])[0], y1: 0, y2: high }),
    ...order.toReversed().flatMap(({ path, kind }) => (path ? [
      svg("polyline", { class: `way ${kind}`, points: path.map((each) => at(each).map((n) => n.toFixed(1)).join(",")).join(" ") }),
      ...path.map((each, i) => svg("circle", { class: `stop ${kind}`, cx: at(each)[0], cy: at(each)[1], r: i ? 2 : 3.5 })),
    ] : [])),
    ...order.toReversed().map(({ place: [x, y], kind }) => svg("circle", { class: `point ${kind}`, cx: x, cy: y, r: kind === "other" ? 3.5 : 5.5 })),
    ...names);
  tips(node, (event) => near(event).title);
  node.shows = [{ name: label, rows: dots.map(({ title }) => title), columns: ["x", "y"], values: dots.flatMap(({ xy }) => xy) }]; // for export
  return node;
}
