// How does it know the order?

import * as api from "./api.js";
import { chart, squiggles, ticksOf } from "./charts.js";
import { colours, words } from "./colour.js";
import { choice, el, exact, number, swap, table, valued } from "./dom.js";
import { matrix } from "./matrix.js";
import { legend } from "./picture.js";
import { sheet } from "./sheets.js";
import { shuffle, shuffles } from "./shuffle.js";

const TABS = [["lecture", "the slides' waves"], ["model", "this model's positions"], ["shuffle", "shuffle the words"], ["slides", "the slides' table"]];
export const SHOWN = TABS.map(([id]) => id);
const LANES = 6;
const NEAREST = 5;
const INSIDE = 0.99; // of all numbers: what is beyond has the last colour

export const positions = {
  id: "positions",
  name: "Positions",
  question: "How does it know the order?",
  lead: "Attention alone sees a bag of words. Something must tell it where each one stands.",
  caveat: "A decoder also knows some order from its mask: a word sees only those before it.",
  build, along,
};

const KINDS = {
  sinusoidal: ["Sines and cosines", "Index 2i of a position is sin(pos / 10000^(2i/d)), index 2i + 1 its cosine: ever slower waves, added to the word's vector."],
  learned: ["Learned", "Each position has a vector of its own, learned like a word's, and added to it."],
  rotary: ["RoPE", "Nothing is added: each pair of a query's and a key's entries is turned, further at each position. Shown are the cosines of the angles."],
  relative: ["Relative", "Nothing is added to the words: each head adds a learned number to its scores, by how far the key is from the query. Far distances share one (buckets)."],
  disentangled: ["Disentangled", "Nothing is added to the words: each distance from query to key has a learned vector, and every head compares its queries and keys with it."],
};

function build(app) {
  const tools = el("div", { class: "tools" });
  const about = el("p", { class: "quiet about-kind" });
  const none = el("section", { class: "card none", hidden: true }, el("h2", { text: "This model has no positions" }),
    el("p", { text: "To it a sentence is a bag of words. Shuffle them, and see that nothing changes." }));
  const slider = el("input", { type: "range", min: "0", step: "1", "aria-label": "Position", on: { input: () => app.update({ place: Number(slider.value) }) } });
  const shown = el("output", {});
  const field = el("label", { class: "field" }, "position", slider, shown);
  const waves = el("div", { class: "plot" });
  const cells = matrix({ name: "All positions: rows are places, columns their numbers", pick: (place) => app.update({ place }), say: number });
  const scale = el("div", { class: "foot" });
  const curve = el("div", { class: "plot" });
  const near = el("div", {});
  const titles = [el("h2"), el("h2"), el("h2")];
  const third = el("section", { class: "card", "aria-label": "Similarity" }, titles[2], curve, near);
  const pictures = el("div", { class: "page-positions" },
    el("section", { class: "card", "aria-label": "Curves" }, titles[0], waves),
    el("section", { class: "card", "aria-label": "Matrix of positions" }, titles[1], el("div", { class: "fit" }, cells.node), scale), third);
  const mixed = shuffle(app);
  const printed = el("div", { class: "sheets" });
  const node = el("div", { class: "positions" }, tools, about, none, pictures, printed, mixed.node);

  async function show() {
    const { state, model } = app;
    const fresh = app.fresh();
    if (!SHOWN.includes(state.show)) state.show = "lecture";
    const mixing = state.show === "shuffle";
    const slides = state.show === "slides" ? await slideSheets() : null;
    const stack = state.stack === "encoder" ? "encoder" : "decoder";
    const data = mixing || slides ? null : await (state.show === "lecture" ? lecture() : placesOf(app, stack));
    if (!fresh()) return undefined;
    const empty = data?.kind === "none";
    [pictures.hidden, mixed.node.hidden, none.hidden, about.hidden] = [!data || empty, !mixing, !empty, !data || empty];
    printed.hidden = !slides;
    const sides = state.show === "model" && model.family === "seq2seq";
    swap(tools, choice("Show", TABS, state.show, (to) => app.update({ show: to })),
      sides ? choice("Stack", [["encoder", "encoder"], ["decoder", "decoder"]], stack, (to) => app.update({ stack: to })) : null,
      ...(mixing ? mixed.tools() : empty || slides ? [] : [field]));
    if (slides) {
      swap(printed, ...slides.sheets.map(sheet));
      return app.say(slides.sheets[0].text);
    }
    if (mixing) return mixed.show(fresh);
    if (empty) return app.say("This model has no positions");
    return draw(data);
  }

  function draw(data) {
    const { state } = app;
    const relative = data.kind === "relative";
    const count = data.values.length;
    const row = Math.max(0, Math.min(count - 1, state.place));
    const called = (i) => String(i + data.first).replace("-", "−");
    const what = data.first < 0 ? "distance" : "position";
    const name = `${what} ${called(row)}`;
    slider.max = String(count - 1);
    slider.value = String(row);
    shown.textContent = called(row);
    field.firstChild.textContent = what;
    const [kind, text] = KINDS[data.kind];
    about.textContent = `${kind}. ${text}`;
    const ticks = ticksOf(count, data.first);
    const all = data.values.flat();
    const sizes = Float64Array.from(all, Math.abs).sort();
    const most = Math.max(sizes[Math.floor(INSIDE * (sizes.length - 1))], 1e-9);
    const over = sizes.at(-1) > 1.01 * most;
    const pick = (place) => app.update({ place });
    const lanes = laned(data).map((c) => laneOf(data, c));
    swap(titles[0], el("span", { text: relative ? "What each head adds, by distance" : "A few of the curves" }), el("span", { class: "quiet", text: `${name} is marked${OWN.includes(data.kind) ? ", each curve has its own scale" : ""}` }));
    swap(waves, squiggles({ label: `${lanes.length} curves; at ${name}: ${lanes.map(({ name: lane, values }) => `${lane} ${number(values[row])}`).join(", ")}`,
      wide: Math.max(260, waves.clientWidth), high: Math.max(240, Math.min(460, waves.clientHeight)), lanes, ticks, marked: row, pick }));
    swap(titles[1], el("span", { text: relative ? "All heads" : `All numbers of all ${what}s` }));
    const bytes = Uint8Array.from(all, (value) => Math.round((255 * (Math.max(-1, Math.min(1, value / most)) + 1)) / 2));
    swap(scale, legend(app.theme(), false, `${over ? "≤ " : ""}${number(-most)}`, `${over ? "≥ " : ""}${number(most)}`, over ? `value, ${100 * INSIDE} % are between` : "value"));
    cells.show({ bytes, values: all, rows: data.values.map((_, i) => ({ text: called(i), special: false })), columns: data.columns.map((each) => ({ text: each, special: false })),
      chosen: row, zoom: 0, stretch: true, round: true, palette: words(colours(app.theme())) });
    cells.view.canvas.dataset.drawn = [state.show, data.kind, app.theme()].join();
    if (relative) buckets(data, row, ticks, called, pick);
    else similar(data, row, ticks, what, called, pick);
    app.say(`${name}: ${lanes.map(({ name: lane, values }) => `${lane} ${number(values[row])}`).join(", ")}`);
  }

  const room = () => ({ wide: Math.max(200, curve.clientWidth), high: Math.max(150, Math.min(420, curve.clientHeight)) });

  /** How like this position or distance is to all others. */
  function similar(data, row, ticks, what, called, pick) {
    const values = data.similar[row];
    const low = Math.min(0, ...data.similar.flat());
    const order = values.map((_, i) => i).filter((i) => i !== row).sort((a, b) => values[b] - values[a]).slice(0, NEAREST);
    swap(titles[2], el("span", { text: `How like ${what} ${called(row)} are the others?` }), el("span", { class: "quiet", text: "cosine" }));
    swap(near, table(`Most like ${what} ${called(row)}`, [what, "cosine", ""], order.map((i) => [
      called(i), valued(values[i], exact), el("span", { class: "bar now", vars: { p: String(Math.max(0, values[i])) } }),
    ]), { class: "values" }));
    swap(curve, chart({ label: `Cosine of ${what} ${called(row)} to all others`, ...room(), low, most: 1, series: [{ kind: "s0", values }], ticks, marked: row, pick }));
  }

  /** Which distances share one number. */
  function buckets(data, row, ticks, called, pick) {
    const same = data.buckets.map((_, i) => i).filter((i) => data.buckets[i] === data.buckets[row]);
    swap(titles[2], el("span", { text: "Which distances share a number?" }), el("span", { class: "quiet", text: "bucket" }));
    swap(near, el("p", { text: same.length > 1 ? `Distances ${called(same[0])} to ${called(same[same.length - 1])} share bucket ${data.buckets[row]}.` : `Distance ${called(row)} has bucket ${data.buckets[row]} for itself.` }));
    swap(curve, chart({ label: "Bucket of each distance", ...room(), low: 0, most: Math.max(...data.buckets, 1),
      series: [{ kind: "s0", values: data.buckets }], ticks, marked: row, pick }));
  }

  return { node, show };
}

export const slideSheets = () => api.json("slides/positions");
const lecture = () => api.json("positions");
const placesOf = ({ model, state }, stack) => api.json(`positions/${model.id}/${stack}${state.saved < 0 ? "" : `?step=${state.saved}`}`);

function* along(app) {
  yield lecture;
  yield slideSheets;
  const own = app.model.family === "seq2seq" ? ["encoder", "decoder"] : [app.model.family];
  if (app.model.kind === "trace") return;
  for (const stack of own) yield () => placesOf(app, stack);
  yield* shuffles(app);
}

/** A few columns to draw as curves: from the fastest to slow ones. */
function laned({ kind, columns }) {
  const count = Math.min(LANES, columns.length);
  if (OWN.includes(kind)) return Array.from({ length: count }, (_, i) => i);
  const even = kind === "sinusoidal" ? 2 : 1;
  return [...new Set(Array.from({ length: count }, (_, i) => Math.floor((i * columns.length * 0.6) / count / even) * even))];
}

const OWN = ["learned", "relative", "disentangled"]; // numbers of any size; waves go from −1 to 1
const CALLED = { relative: "head", rotary: "pair" };

function laneOf({ kind, columns, values: all }, c) {
  const values = all.map((each) => each[c]);
  return { name: `${CALLED[kind] ?? "index"} ${columns[c]}`, values, most: OWN.includes(kind) ? Math.max(...values.map(Math.abs), 1e-9) : 1 };
}
