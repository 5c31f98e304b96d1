// Which heads do something here?

import * as api from "./api.js";
import { colours, ink, words } from "./colour.js";
import { choice, el, number, select, share, swap, table, tick, valued } from "./dom.js";
import { headName } from "./head.js";
import { density, legend, paint, scaleFor, weightOf } from "./picture.js";
import { predictions } from "./predictions.js";
import { tips } from "./tip.js";
import { sides, strip } from "./tokens.js";

const GAP = 4; // CSS pixels between two pictures, as in style.css
const SMALLEST = 18;
const LARGEST = 220;
const ROOM_FOR_KNOB = 30;
const MOST_BITS = 14; // of surprisal: the strongest colour

export const map = {
  id: "map",
  name: "Map",
  question: "Which heads do something here?",
  lead: "Every picture is one head: each row is a token, and the darker a cell, the more that row looks at that column.",
  leadDark: "Every picture is one head: each row is a token, and the brighter a cell, the more that row looks at that column.",
  caveat: "A strong weight is not yet a cause. Switch a head off and see whether the answer changes.",
  build, along,
};

function build(app) {
  const tools = el("div", { class: "tools" });
  const left = el("aside", { class: "card tokens", "aria-label": "Tokens" });
  const canvas = el("canvas", { "aria-hidden": "true" });
  const grid = el("table", { role: "grid", "aria-label": "Heads, one row a layer" });
  const knob = el("button", { type: "button", class: "knob", tabindex: "-1", hidden: true });
  const board = el("div", { class: "board" }, canvas, grid, knob);
  const centre = el("section", { class: "card centre", "aria-label": "Map of heads" }, el("div", { class: "scroll" }, board));
  const right = el("div", { class: "right" });
  const node = el("div", { class: "page-map" }, tools, left, centre, right);
  let hovered = null;
  let bits = null; // surprisal of the tokens
  let drawn = ""; // what the grid's buttons stand for

  grid.addEventListener("click", (event) => pickFrom(event, (at) => app.update(at)));
  grid.addEventListener("dblclick", (event) => pickFrom(event, (at) => app.update({ ...at, page: "head" })));
  grid.addEventListener("pointerover", (event) => pickFrom(event, (at) => { hovered = at; placeKnob(); }));
  tips(grid, (event) => pickFrom(event, ({ layer, head }) => described(app, layer, head)));
  grid.addEventListener("keydown", (event) => onKey(app, event));
  board.addEventListener("pointerleave", () => { hovered = null; placeKnob(); });
  knob.addEventListener("click", () => {
    app.toggle(hovered ?? app.state);
    grid.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  });

  function placeKnob() {
    const at = hovered ?? app.state;
    const cell = grid.querySelector(`[data-at="${at.layer}.${at.head}"]`);
    knob.hidden = !cell || cell.offsetWidth < ROOM_FOR_KNOB || app.fixed();
    if (knob.hidden) return;
    const off = app.isOff(at);
    knob.textContent = off ? "on" : "off";
    knob.setAttribute("aria-label", `switch layer ${at.layer}, head ${at.head} ${off ? "on" : "off"}`);
    const box = cell.parentElement;
    knob.style.left = `${box.offsetLeft + box.offsetWidth}px`;
    knob.style.top = `${box.offsetTop + box.offsetHeight}px`;
  }

  async function show() {
    const { state, run } = app;
    const fresh = app.fresh();
    const stack = run.stacks.find(({ name }) => name === state.stack);
    swap(right, answer(app), headCard(app, null));
    swap(left, ...tokenStrips(app, bits));
    const [heads, measures] = await Promise.all([
      small(run, stack.name),
      state.colour === "weights" ? null : measured(run), // slower: the picture comes first
    ]);
    if (!fresh()) return;
    const size = room(centre, stack, heads.shape);
    const values = measures?.values[stack.name]?.[state.colour] ?? null;
    const scale = values && range(values);
    const key = [stack.name, stack.layers, stack.heads].join();
    if (key !== drawn) fill(grid, stack);
    drawn = key;
    board.style.setProperty("--wide", `${size.wide + GAP}px`);
    board.style.setProperty("--high", `${size.high + GAP}px`);
    const palette = colours(app.theme(), state.faint && !values);
    draw(canvas, stack, heads, size, values && ((l, h) => scale.byte(values[l][h])), words(palette));
    canvas.shows = shows(run, stack.name, canvas.shows, values);
    Object.assign(canvas.dataset, { scale: size.scale, gap: gapOf(size) }); // for tests that read pixels
    canvas.dataset.drawn = [run.run, stack.name, state.colour, app.theme(), state.faint].join();
    label(app, grid, stack, values, scale, palette);
    placeKnob();
    const all = await measured(run);
    if (!fresh()) return;
    app.known = all;
    swap(tools, ...toolbar(app, all, scale));
    swap(right, answer(app), headCard(app, all));
    bits = await surprisal(app);
    if (!fresh()) return;
    swap(left, ...tokenStrips(app, bits));
    app.say(spoken(app, all));
  }

  return { node, show };
}

/** All heads of a stack, as small pictures. */
export const small = ({ run }, stack) => api.bytes(`runs/${run}/map/${stack}`);

const measured = ({ run }) => api.json(`runs/${run}/measures`);

function* along(app) {
  const { run } = app;
  yield () => measured(run);
  yield () => surprisal(app);
  for (const { name } of run.stacks) yield () => small(run, name);
}

function pickFrom(event, act) {
  const at = event.target.closest("button")?.dataset.at?.split(".").map(Number);
  return at && act({ layer: at[0], head: at[1] });
}

/** A head in a few words: its name, what it resembles, the measure that is shown. */
function described({ state, known }, layer, head) {
  const kind = known?.types?.[state.stack]?.[layer]?.[head];
  const measure = known?.names.find(({ id }) => id === state.colour);
  const value = measure && known.values[state.stack]?.[measure.id]?.[layer][head];
  return [headName(layer, head), kind, value === undefined ? null : `${measure.title} ${number(value)}`].filter(Boolean).join(", ");
}

function onKey(app, event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!by) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    app.update({ page: "head" });
    return;
  }
  event.preventDefault();
  app.update({ layer: app.state.layer + by[0], head: app.state.head + by[1] });
}

/** The size of a head's picture, so that all fit if possible. */
function room(centre, stack, [, , rows, columns]) {
  const holder = centre.firstElementChild;
  const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const wide = (holder.clientWidth - 2 * em) / stack.heads - GAP;
  const bounded = matchMedia("(min-width: 960px)").matches; // on a small screen the page scrolls
  const high = bounded ? (holder.clientHeight - 1.5 * em) / stack.layers - GAP : LARGEST;
  const target = Math.max(SMALLEST, Math.min(LARGEST, wide, high));
  const k = density();
  const most = Math.max(rows, columns);
  const whole = scaleFor(rows, columns, target * k, target * k);
  const scale = most * whole < 0.8 * target * k ? whole + 1 : whole; // slightly blurred rather than small
  const shrink = Math.min(1, (target * k) / (most * scale));
  return { scale, shrink, wide: (columns * scale * shrink) / k, high: (rows * scale * shrink) / k };
}

/** Canvas pixels between two heads. */
const gapOf = ({ shrink }) => Math.round((GAP * density()) / shrink);

/** The whole map as one picture. */
function draw(canvas, { layers, heads }, { bytes, shape: [, , rows, columns] }, size, byteOf, palette) {
  const { scale, shrink } = size;
  const k = density();
  const gap = gapOf(size);
  const [wide, high] = [columns * scale + gap, rows * scale + gap];
  [canvas.width, canvas.height] = [heads * wide, layers * high];
  canvas.style.width = `${(canvas.width * shrink) / k}px`;
  canvas.style.height = `${(canvas.height * shrink) / k}px`;
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const area = rows * columns;
  canvas.shows = [];
  for (let l = 0; l < layers; l++) {
    for (let h = 0; h < heads; h++) {
      const one = byteOf ? new Uint8Array(area).fill(byteOf(l, h))
        : bytes.subarray((l * heads + h) * area, (l * heads + h + 1) * area);
      paint(pixels, canvas.width, one, rows, columns, h * wide, l * high, scale, palette);
      canvas.shows.push({ layer: l, head: h, bytes: one, rows, columns, palette, scale, left: h * wide, top: l * high });
    }
  }
  pen.putImageData(image, 0, 0);
}

/** For export: each head's cells by their tokens; of a long text, by numbers. */
export function shows(run, stack, heads, values = null) {
  const [rows, columns] = sides(run, stack).map((tokens) => tokens.map(({ text }) => text));
  return heads.map((each) => ({
    ...each, name: `${stack}, layer ${each.layer}, head ${each.head}`,
    rows: each.rows === rows.length ? rows : Array.from({ length: each.rows }, (_, i) => String(i)),
    columns: each.columns === columns.length ? columns : Array.from({ length: each.columns }, (_, i) => String(i)),
    value: values ? () => String(values[each.layer][each.head]) : weightOf,
  }));
}

/** A measure's values on the scale of colours: from zero, or from the least if that is below. */
function range(values) {
  const all = values.flat();
  const low = Math.min(0, ...all);
  const high = Math.max(...all);
  const span = high - low || 1;
  return { low, high, byte: (value) => Math.round((255 * (value - low)) / span) };
}

function fill(grid, { layers, heads }) {
  const numbers = (n) => Array.from({ length: n }, (_, i) => i);
  grid.replaceChildren(
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, el("span", { class: "unseen", text: "layer" })),
      ...numbers(heads).map((h) => el("th", { scope: "col", text: h })))),
    el("tbody", {}, ...numbers(layers).map((l) => el("tr", {}, el("th", { scope: "row", text: l }),
      ...numbers(heads).map((h) => el("td", {}, el("button", { type: "button", "data-at": `${l}.${h}` })))))));
}

/** Selection, heads that are off, and numbers where the colours stand for a measure. */
function label(app, grid, stack, values, scale, palette) {
  const focused = grid.contains(document.activeElement);
  for (const cell of grid.querySelectorAll("button")) {
    const [layer, head] = cell.dataset.at.split(".").map(Number);
    const chosen = layer === app.state.layer && head === app.state.head;
    const off = app.isOff({ layer, head });
    cell.className = `${chosen ? "chosen" : ""} ${off ? "off" : ""}`;
    cell.tabIndex = chosen ? 0 : -1;
    const value = values?.[layer][head];
    cell.textContent = value === undefined ? "" : number(value);
    cell.style.color = value === undefined ? "" : ink(palette[scale.byte(value)]);
    cell.setAttribute("aria-label", `layer ${layer}, head ${head}${off ? ", off" : ""}${value === undefined ? "" : `, ${number(value)}`}`);
    cell.parentElement.setAttribute("aria-selected", String(chosen));
    if (chosen && focused) cell.focus({ preventScroll: false });
  }
}

function tokenStrips(app, bits) {
  const { run, state } = app;
  const asked = new Set(run.predictions.kind === "masked" ? run.predictions.at.map(({ token }) => token) : []);
  return Object.entries(run.tokens.queries).flatMap(([name, tokens], _, all) => {
    const own = sides(run, state.stack)[0] === tokens;
    const marks = Object.fromEntries([...asked].map((i) => [i, "asked"]));
    return [
      el("h2", { text: all.length > 1 ? `${tokens.length} tokens, ${name}` : `${tokens.length} tokens` }),
      strip(`Tokens of the ${name}`, tokens, own ? state.query : -1,
        (query) => app.update(own ? { query } : { query, stack: name }), marks, false, bits?.run === run.run && bits.side === name ? tinted(bits.bits) : {}),
      sideOfWords(app.model) === name ? tick("surprisal", surprised(app), (on) => app.update({ surprise: on ? "1" : "0" }), "Surprisal (bits): how little the model expected each token, −log₂ of its probability") : null,
    ].filter(Boolean);
  });
}

/** The side whose tokens the model predicts, if it predicts tokens. */
const sideOfWords = ({ predicts_tokens: able, family }) => able && (family === "encoder" ? "encoder" : "decoder");

/** Whether tokens are coloured: at once where it costs nothing; an encoder is asked token by token. */
const surprised = ({ state, model }) => Boolean(sideOfWords(model)) && (state.surprise ? state.surprise === "1" : model.family !== "encoder");

/** The surprisal of this run's tokens, if it is shown. */
async function surprisal(app) {
  if (!surprised(app)) return null;
  const known = await api.json(`runs/${app.run.run}/surprisal`).catch((error) => { if (![400, api.MISSING].includes(error.status)) throw error; return null; });
  return known && { ...known, run: app.run.run };
}

/** Colours and titles of tokens, by their surprisal in bits. */
const tinted = (bits) => Object.fromEntries(bits.flatMap((each, i) => (each === null ? [] : [[i, {
  tint: Math.min(1, each / MOST_BITS).toFixed(3), title: `surprisal ${each.toFixed(1)} bits, p ${share(2 ** -each)}`,
}]])));

function toolbar(app, all, scale) {
  const { state, run } = app;
  const by = select([["weights", "weights"], ...all.names.map(({ id, title }) => [id, title])], state.colour, (colour) => app.update({ colour }));
  const measure = all.names.find(({ id }) => id === state.colour);
  return [
    run.stacks.length > 1 ? choice("Stack", run.stacks.map(({ name }) => [name, name]), state.stack, (stack) => app.update({ stack })) : null,
    el("label", { class: "field", title: measure && explained(measure) }, "Colour by", by),
    scale ? null : tick("faint weights too", state.faint, (faint) => app.update({ faint }), "More of the colours for small weights"),
    legend(app.theme(), state.faint && !scale, number(scale?.low ?? 0), number(scale?.high ?? 1), scale ? "value" : "weight"),
    state.off.length ? el("button", { type: "button", class: "plain", text: `All heads on (${state.off.length} off)`, asks: true, on: { click: () => app.update({ off: [] }) } }) : null,
  ];
}

/** The predictions at the chosen token, if it has any. */
function answer({ run, before, state, model }) {
  const listens = model.family === "seq2seq" && state.stack === "encoder";
  return predictions(run, before, listens ? -1 : state.query, model);
}

const explained = ({ title, text, paper }) => `${title}: ${text}. ${paper}`;

function headCard(app, all) {
  const { state } = app;
  const { stack, layer, head } = state;
  const kind = all?.types?.[stack]?.[layer]?.[head];
  const off = app.isOff(state);
  const values = all?.values[stack] ?? {};
  return el("section", { class: "card one-head", "aria-label": "The chosen head" },
    el("h2", { text: `Layer ${layer}, head ${head}` }, kind ? el("span", { class: "badge", text: kind }) : null),
    el("div", { class: "buttons" },
      !app.has("head") ? null : el("button", { type: "button", class: "main", text: "Look closer", on: { click: () => app.update({ page: "head" }) } }),
      app.fixed() ? null : el("button", { type: "button", class: "plain", "aria-pressed": String(off), title: "Ablation: off, this head adds nothing", text: off ? "Switch on" : "Switch off", on: { click: () => app.toggle() } })),
    all ? table("Measures of this head", ["measure", "value"], all.names.filter(({ id }) => values[id])
      .map(({ id, ...measure }) => [el("span", { title: explained(measure), text: measure.title }), valued(values[id][layer][head], number)]), { class: "measures" }) : null);
}

function spoken(app, all) {
  const { stack, layer, head } = app.state;
  const kind = all.types?.[stack]?.[layer]?.[head];
  return `${stack}, layer ${layer}, head ${head}${app.isOff(app.state) ? ", off" : ""}${kind ? `, ${kind}` : ""}`;
}
