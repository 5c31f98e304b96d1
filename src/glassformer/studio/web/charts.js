// Line charts as SVG.

import { tips } from "./tip.js";

const SVG = "http://www.w3.org/2000/svg";
const [LEFT, RIGHT, TOP, BOTTOM] = [40, 14, 12, 26]; // room for the scales, in CSS pixels

/** An SVG element; `text` is its text, `on` its listeners. */
export function svg(tag, props = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else node.setAttribute(name, value);
  }
  node.append(...children.filter(Boolean));
  return node;
}

/** A step for a scale of about five marks: 1, 2 or 5 times a power of ten. */
function even(span) {
  const size = 10 ** Math.floor(Math.log10(span / 5));
  return [1, 2, 5, 10].map((n) => n * size).find((step) => span / step <= 6);
}

/** Places along an axis to name: every few, at round numbers from `first` on. */
export function ticksOf(count, first = 0) {
  const step = Math.max(1, even(count));
  return Array.from({ length: count }, (_, i) => [i, i + first]).filter(([, at]) => at % step === 0).map(([i, at]) => [i, String(at).replace("-", "−")]);
}

const path = (points) => points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" ");

/** The clicked place: the nearest of `count` places along an axis. */
function nearest(event, left, right, count) {
  const box = event.currentTarget.getBoundingClientRect();
  const at = (event.clientX - box.left - left) / (box.width - left - right);
  return Math.max(0, Math.min(count - 1, Math.round(at * (count - 1))));
}

/**
 * Curves over places, with one place marked.
 * @param {{label: string, wide: number, high: number, low: number, most: number, title?: string, places?: string[], series: {kind: string, name?: string, values: number[]}[],
 *   ticks: [number, string][], slanted?: boolean, marked?: number, pick?: (place: number) => void}} what
 */
export function chart({ label, title = label, places, wide, high, low, most, series, ticks, slanted = false, marked = -1, pick }) {
  const count = series[0].values.length;
  const bottom = slanted ? BOTTOM * 3 : BOTTOM;
  const left = slanted ? LEFT + 18 : LEFT;
  const x = (i) => left + (count < 2 ? 0.5 : i / (count - 1)) * (wide - left - RIGHT);
  const y = (value) => TOP + (1 - (value - low) / (most - low)) * (high - TOP - bottom);
  const step = even(most - low);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const marks = Array.from({ length: 7 }, (_, i) => (Math.ceil(low / step - 1e-9) + i) * step).filter((value) => value <= most + 1e-9);
  const node = svg("svg", { class: "chart", role: "img", "aria-label": label, width: wide, height: high,
    on: pick ? { click: (event) => pick(nearest(event, left, RIGHT, count)) } : {} },
  ...marks.map((value) => svg("line", { class: "grid", x1: left, x2: wide - RIGHT, y1: y(value), y2: y(value) })),
  ...marks.map((value) => svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", text: value.toFixed(digits).replace("-", "−") })),
  ...ticks.map(([i, text]) => (slanted
    ? svg("text", { "text-anchor": "end", transform: `translate(${x(i) + 4} ${high - bottom + 14}) rotate(-50)`, text })
    : svg("text", { x: x(i), y: high - 8, "text-anchor": "middle", text }))),
  marked >= 0 ? svg("line", { class: "marked", x1: x(marked), x2: x(marked), y1: TOP, y2: high - bottom }) : null,
  ...series.map(({ kind, values }) => svg("polyline", { class: `curve ${kind}`, points: path(values.map((value, i) => [x(i), y(value)])) })),
  ...series.flatMap(({ kind, values }) => (marked >= 0 || count <= 40
    ? values.map((value, i) => [value, i]).filter(([, i]) => marked < 0 || i === marked)
      .map(([value, i]) => svg("circle", { class: `dot ${kind}`, cx: x(i), cy: y(value), r: marked < 0 ? 2.5 : 4.5 })) : [])));
  tips(node, (event) => {
    const i = nearest(event, left, RIGHT, count);
    return `${places?.[i] ?? i}: ${series.map(({ name, values }) => `${name ? `${name} ` : ""}${shortly(values[i])}`).join(", ")}`;
  });
  node.shows = [{ name: title, rows: series.map(({ name = "" }) => name), columns: places ?? series[0].values.map((_, i) => i), values: series.flatMap(({ values }) => values) }]; // for export
  return node;
}

/**
 * A lane for each curve, and their values at the marked place.
 * @param {{label: string, wide: number, high: number, lanes: {name: string, values: number[], most: number}[],
 *   ticks: [number, string][], marked: number, pick: (place: number) => void}} what
 */
export function squiggles({ label, wide, high, lanes, ticks, marked, pick }) {
  const [left, right] = [72, 58];
  const count = lanes[0].values.length;
  const lane = (high - TOP - BOTTOM) / lanes.length;
  const x = (i) => left + (i / (count - 1)) * (wide - left - right);
  const middle = (n) => TOP + (n + 0.5) * lane;
  const y = (n, value) => middle(n) - (value / lanes[n].most) * lane * 0.42;
  return svg("svg", { class: "chart squiggles", role: "img", "aria-label": label, width: wide, height: high,
    on: { click: (event) => pick(nearest(event, left, right, count)) } },
  ...lanes.flatMap(({ name, values }, n) => [
    svg("line", { class: "grid", x1: left, x2: wide - right, y1: middle(n), y2: middle(n) }),
    svg("text", { x: left - 8, y: middle(n) + 4, "text-anchor": "end", text: name }),
    svg("polyline", { class: "curve s0", points: path(values.map((value, i) => [x(i), y(n, value)])) }),
  ]),
  svg("line", { class: "marked", x1: x(marked), x2: x(marked), y1: TOP / 2, y2: high - BOTTOM }),
  ...lanes.flatMap(({ values }, n) => [
    svg("circle", { class: "dot s1", cx: x(marked), cy: y(n, values[marked]), r: 4.5 }),
    svg("text", { class: "value", x: wide - right + 8, y: middle(n) + 4, text: shortly(values[marked]) }),
  ]),
  ...ticks.map(([i, text]) => svg("text", { x: x(i), y: high - 8, "text-anchor": "middle", text })));
}

const shortly = (value) => value.toFixed(Math.abs(value) >= 9.995 ? 1 : 2).replace("-", "−");
