// A page as SVG, read from the screen: the same boxes, words and pictures at the same places.
// Pictures of numbers become one rectangle a cell with its value.

import { valueAt } from "./picture.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_CELLS = 16_384; // more become one lossless image
const UNWRITABLE = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu; // in XML

const legal = (text) => text.replace(UNWRITABLE, "\u{FFFD}");
const tenth = (value) => String(Math.round(value * 10) / 10);

function shape(parent, tag, props, text) {
  const node = parent.ownerDocument.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) {
    if (value !== null) node.setAttribute(name, typeof value === "number" ? tenth(value) : legal(value));
  }
  if (text !== undefined) node.append(legal(text));
  parent.append(node);
  return node;
}

/** A canvas context that draws shapes; only what our pages use. */
function pen(into, scale, real) {
  let path = "";
  const at = (...numbers) => numbers.map((each) => tenth(each / scale)).join(" ");
  return {
    strokeStyle: "#000", fillStyle: "#000", lineWidth: 1, globalAlpha: 1, font: "", textAlign: "left", textBaseline: "middle",
    beginPath() { path = ""; },
    moveTo(x, y) { path += `M${at(x, y)}`; },
    lineTo(x, y) { path += `L${at(x, y)}`; },
    bezierCurveTo(...points) { path += `C${at(...points)}`; },
    stroke() { shape(into, "path", { d: path, fill: "none", stroke: this.strokeStyle.trim(), "stroke-width": String(this.lineWidth / scale), "stroke-opacity": String(this.globalAlpha) }); },
    fillRect(x, y, wide, high) { shape(into, "rect", { x: x / scale, y: y / scale, width: wide / scale, height: high / scale, fill: this.fillStyle }); },
    measureText(text) { real.font = this.font; return real.measureText(text); },
    fillText(text, x, y) {
      const [, weight, size] = this.font.match(/^(\d+ )?([\d.]+)px/);
      shape(into, "text", {
        x: x / scale, y: y / scale + 0.35 * (Number(size) / scale), "font-size": Number(size) / scale, "font-weight": weight ? weight.trim() : null,
        "text-anchor": { right: "end", center: "middle" }[this.textAlign] ?? "start", fill: this.fillStyle.trim(),
      }, text);
    },
  };
}

/** The pictures of numbers in a canvas; curves are none. */
const painted = ({ shows }) => (shows ?? []).filter(({ bytes }) => bytes);

function picture(parent, canvas, box, pixels) {
  const scale = canvas.width / box.width || 1;
  const shown = painted(canvas);
  const whole = (value) => (pixels && shown.length ? Math.round(value * pixels) / pixels : value);
  const group = shape(parent, "g", { transform: `translate(${tenth(whole(box.x))} ${tenth(whole(box.y))})` });
  if (!pixels && shown.length && shown.reduce((sum, { bytes }) => sum + bytes.length, 0) <= MOST_CELLS) {
    for (const each of shown) cells(group, each, scale);
    clip(group, { ...box, x: 0, y: 0 });
  } else if (canvas.again && !shown.length) {
    canvas.again(pen(group, scale, canvas.getContext("2d")));
    clip(group, { ...box, x: 0, y: 0 });
  } else {
    shape(group, "image", { width: box.width, height: box.height, href: canvas.toDataURL("image/png"), "image-rendering": "pixelated" });
  }
}

let clips = 0;

function clip(group, box) {
  const id = `clip-${++clips}`;
  shape(shape(group, "clipPath", { id }), "rect", box);
  group.setAttribute("clip-path", `url(#${id})`);
  return group;
}

/** The visible part of a scrolling element; whole pixels, so that no edge is blurred. */
function frame(parent, { x, y, width, height }) {
  const [left, top] = [x, y].map(Math.floor);
  return clip(shape(parent, "g", {}), { x: left, y: top, width: Math.ceil(x + width) - left, height: Math.ceil(y + height) - top });
}

function cells(group, each, scale) {
  const { name, bytes, rows, columns, palette, left, top, scale: cell, tall = cell } = each;
  const inner = shape(group, "g", { "shape-rendering": "crispEdges", role: "img", "aria-label": name });
  const [width, height] = [cell / scale, tall / scale];
  bytes.forEach((byte, i) => {
    const [r, c] = [Math.floor(i / columns.length), i % columns.length];
    const node = shape(inner, "rect", { x: left / scale + c * width, y: top / scale + r * height, width, height, fill: hex(palette[byte]), "data-value": valueAt(each, i) });
    shape(node, "title", {}, `${rows[r]} → ${columns[c]}: ${valueAt(each, i)}`);
  });
}

const hex = (word) => `#${[0, 8, 16].map((shift) => ((word >> shift) & 255).toString(16).padStart(2, "0")).join("")}`;
const clear = (colour) => /^rgba\(.*, 0\)$/.test(colour);

/** A frame that is drawn as a shadow, inside of the box or around it. */
function ring(parent, { boxShadow }, { x, y, width, height }, radius) {
  const [, colour, size, inset] = boxShadow.match(/^(rgba?\([^)]*\)) 0px 0px 0px ([\d.]+)px( inset)?$/) ?? [];
  if (!colour) return;
  const by = (inset ? 1 : -1) * Number(size) / 2;
  shape(parent, "rect", { x: x + by, y: y + by, width: width - 2 * by, height: height - 2 * by, rx: radius || null, fill: "none", stroke: colour, "stroke-width": size });
}

/** An element's own box: its paper, its frame, its range of colours. */
function paper(parent, node, style, { x, y, width, height }) {
  if (!width || !height) return;
  const steps = style.backgroundImage.match(/rgba?\([^)]*\)/g);
  const framed = parseFloat(style.borderTopWidth) && parseFloat(style.borderLeftWidth) && !clear(style.borderTopColor);
  let fill = clear(style.backgroundColor) ? "none" : style.backgroundColor;
  if (style.backgroundImage.startsWith("linear-gradient(to right") && steps) {
    const id = `ramp-${++clips}`;
    const ramp = shape(parent, "linearGradient", { id });
    steps.forEach((colour, i) => shape(ramp, "stop", { offset: String(i / (steps.length - 1)), "stop-color": colour }));
    fill = `url(#${id})`;
  }
  const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2);
  if (fill !== "none" || framed) {
    shape(parent, "rect", { x, y, width, height, rx: radius || null, fill, stroke: framed ? style.borderTopColor : null, opacity: style.opacity === "1" ? null : style.opacity });
  } else if (parseFloat(style.borderTopWidth) && !clear(style.borderTopColor)) {
    shape(parent, "path", { d: `M${tenth(x)} ${tenth(y)}h${tenth(width)}`, stroke: style.borderTopColor });
  }
  ring(parent, style, { x, y, width, height }, radius);
}

/** The lines of a text as they are broken on the screen: [text, box] each. */
function lines(node) {
  const range = document.createRange();
  range.selectNodeContents(node);
  if (range.getClientRects().length < 2) return [[node.data, range.getBoundingClientRect()]];
  const lines = [];
  for (const { 0: word, index } of node.data.matchAll(/\S+\s*/g)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.trimEnd().length);
    const box = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (last && Math.abs(last[1].top - box.top) < 2) {
      last[0] += word;
      last[1].width = box.right - last[1].left;
    } else lines.push([word, box]);
  }
  return lines;
}

/** How the words of an element look. */
const lettered = (style) => ({
  "font-size": parseFloat(style.fontSize), "font-weight": style.fontWeight === "400" ? null : style.fontWeight, fill: style.color,
  "font-family": style.fontFamily === getComputedStyle(document.body).fontFamily ? null : style.fontFamily,
});

function write(parent, node, origin) {
  const holder = node.parentElement;
  const style = getComputedStyle(holder);
  const size = parseFloat(style.fontSize);
  const look = {
    ...lettered(style), opacity: style.opacity === "1" ? null : style.opacity, "xml:space": "preserve",
    "text-decoration": style.textDecorationLine === "none" ? null : style.textDecorationLine,
  };
  if (style.writingMode.startsWith("vertical")) {
    const box = holder.getBoundingClientRect();
    const [x, y] = [box.x - origin.x + box.width / 2 + size * 0.35, box.bottom - origin.y];
    shape(parent, "text", { ...look, x, y, transform: `rotate(-90 ${tenth(x)} ${tenth(y)})` }, node.data);
    return;
  }
  const room = style.textOverflow === "ellipsis" ? holder.getBoundingClientRect().right : Infinity;
  for (const [text, box] of lines(node)) {
    if (!text.trim() || !box.width) continue;
    const fits = box.right <= room + 1 ? text : `${text.slice(0, Math.max(1, Math.floor((text.length * (room - box.left)) / box.width) - 1))}…`;
    shape(parent, "text", { ...look, x: box.x - origin.x, y: box.y - origin.y + box.height / 2 + size * 0.35 }, fits);
  }
}

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "fill-opacity", "stroke-opacity", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

/** A drawing that is SVG already: its shapes, with the computed styles. */
function copied(parent, node, { x, y, width, height }) {
  const copy = shape(parent, "svg", { x, y, width, height, viewBox: node.getAttribute("viewBox"), preserveAspectRatio: node.getAttribute("preserveAspectRatio") });
  const add = (from, into) => {
    for (const child of from.children) {
      const style = getComputedStyle(child);
      const own = [...child.attributes].filter(({ name }) => !["class", "style", "id"].includes(name) && !name.startsWith("on"));
      const words = [...child.childNodes].filter((each) => each instanceof Text).map(({ data }) => data).join("");
      const copy = shape(into, child.localName, { ...Object.fromEntries(own.map(({ name, value }) => [name, value])), ...Object.fromEntries(LOOKS.map((name) => [name, style.getPropertyValue(name)])) }, words);
      add(child, copy);
    }
  };
  add(node, copy);
}

/** What browsers draw themselves: ticks, sliders, the bars of fractions and roots. */
function marks(parent, node, style, { x, y, width, height }, origin) {
  const line = (d) => shape(parent, "path", { d, fill: "none", stroke: style.color, "stroke-width": "1.3" });
  if (node.matches("input[type=checkbox]")) {
    shape(parent, "rect", { x, y, width, height, rx: 2, fill: node.checked ? style.accentColor : "none", stroke: style.color });
    if (node.checked) shape(parent, "path", { d: `M${tenth(x + 3)} ${tenth(y + height / 2)}l${tenth(width / 5)} ${tenth(height / 4)}l${tenth(width / 3)} ${tenth(-height / 2)}`, fill: "none", stroke: "#fff", "stroke-width": "1.8" });
  } else if (node.matches("input[type=range]")) {
    const at = x + ((Number(node.value) - Number(node.min)) / (Number(node.max) - Number(node.min) || 1)) * width;
    shape(parent, "path", { d: `M${tenth(x)} ${tenth(y + height / 2)}h${tenth(width)}`, stroke: style.color, "stroke-opacity": ".3", "stroke-width": "5" });
    shape(parent, "circle", { cx: at, cy: y + height / 2, r: 8, fill: style.accentColor });
  } else if (node.localName === "mfrac") {
    const [above, below] = [...node.children].map((child) => child.getBoundingClientRect());
    line(`M${tenth(x)} ${tenth((above.bottom + below.top) / 2 - origin.y)}h${tenth(width)}`);
  } else if (node.localName === "msqrt") {
    const inner = node.firstElementChild.getBoundingClientRect().left - origin.x;
    line(`M${tenth(x + 1)} ${tenth(y + height * 0.6)}l3 -2L${tenth(inner - 5)} ${tenth(y + height)}L${tenth(inner)} ${tenth(y + 1)}H${tenth(x + width)}`);
  }
}

/** What is chosen in a list or written in a box; in an empty box, what it suggests. */
function typed(parent, node, style, { x, y, height }) {
  const text = node.matches("select") ? node.selectedOptions[0]?.textContent : node.value;
  const size = parseFloat(style.fontSize);
  const at = { x: x + parseFloat(style.borderLeftWidth) + parseFloat(style.paddingLeft), y: y + height / 2 + size * 0.35 };
  const fill = text ? style.color : getComputedStyle(node, "::placeholder").color;
  shape(parent, "text", { ...lettered(style), ...at, fill }, text || node.placeholder || "");
}

/** Whether any of it is visible. */
function inSight(box, windows) {
  return windows.every((each) => box.right > each.left && box.left < each.right && box.bottom > each.top && box.top < each.bottom);
}

function walk(parent, node, origin, windows, pixels) {
  if (node instanceof Text) {
    if (node.data.trim() && inSight(node.parentElement.getBoundingClientRect(), windows)) write(parent, node, origin);
    return;
  }
  if (!(node instanceof Element) || node.matches(".unseen, caption, .knob")) return;
  const style = getComputedStyle(node);
  if (style.display === "contents") { // without a box of its own
    for (const child of node.childNodes) walk(parent, child, origin, windows, pixels);
    return;
  }
  if (!node.checkVisibility() || style.clipPath !== "none") return; // for screen readers
  const real = node.getBoundingClientRect();
  if (!inSight(real, windows)) return;
  const box = { x: real.x - origin.x, y: real.y - origin.y, width: real.width, height: real.height };
  if (node instanceof HTMLCanvasElement) {
    if (node.width && node.height) picture(parent, node, box, pixels);
    return;
  }
  if (node instanceof SVGSVGElement) {
    copied(parent, node, box);
    return;
  }
  paper(parent, node, style, box);
  marks(parent, node, style, box, origin);
  if (node.matches("select, input:not([type=checkbox], [type=range]), textarea")) {
    typed(frame(parent, box), node, style, box);
    return;
  }
  const open = style.overflowY === "visible";
  const whole = open || (node.scrollWidth <= node.clientWidth && node.scrollHeight <= node.clientHeight);
  const into = whole ? parent : frame(parent, box);
  for (const child of node.childNodes) walk(into, child, origin, open ? windows : [...windows, real], pixels);
}

/**
 * The element as an SVG file.
 * @param {number} pixels if it will be painted, so many for each on the screen: pictures of numbers stay pixels, each at a whole place
 * @returns {{text: string, width: number, height: number}}
 */
export function toSvg(node, pixels = 0) {
  const origin = node.getBoundingClientRect();
  const [width, height] = [Math.ceil(origin.width), Math.ceil(origin.height)];
  const file = document.implementation.createDocument(SVG, "svg");
  const root = file.documentElement;
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}`, "font-family": getComputedStyle(node).fontFamily })) root.setAttribute(name, value);
  clips = 0;
  shape(root, "title", {}, document.title);
  shape(root, "rect", { width, height, fill: getComputedStyle(document.body).backgroundColor });
  walk(root, node, origin, [origin], pixels);
  return { text: new XMLSerializer().serializeToString(file), width, height };
}
