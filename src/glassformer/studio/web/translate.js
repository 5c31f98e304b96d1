// Which source word made this one?

import * as api from "./api.js";
import { arcs } from "./arcs.js";
import { colours, words } from "./colour.js";
import { el, swap, table, valued, visible } from "./dom.js";
import { shows, small } from "./map.js";
import { matrix } from "./matrix.js";
import { legend, paint } from "./picture.js";
import { cut } from "./predictions.js";

const GAP = 1; // cells between two heads of a minimap
const MINI = 100; // its width, if that is enough

export const translate = {
  id: "translate",
  name: "Translate",
  question: "Which source word made this one?",
  lead: "Rows are the words of the translation, columns those of the source: where did the decoder look as it wrote?",
  caveat: "Attention aligns words well, not perfectly: a word may be written from several, or from none.",
  build, along,
};

function build(app) {
  const none = el("section", { class: "card none", hidden: true });
  const pick = (word) => app.update({ word });
  const lines = arcs(pick);
  const cells = matrix({ name: "Alignment: rows are written words, columns source words", pick });
  const scale = el("div", { class: "foot" });
  const right = el("div", { class: "right" });
  const body = el("div", { class: "page-translate" },
    el("section", { class: "card lines", "aria-label": "Links" }, el("h2", { text: "Written word → source word" }), lines.node),
    el("section", { class: "card cells", "aria-label": "Alignment" }, el("h2", { text: "All weights" }), el("div", { class: "fit" }, cells.node), scale), right);
  const node = el("div", {}, none, body);

  async function show() {
    const { state, run, model } = app;
    const fresh = app.fresh();
    const only = (...message) => {
      [none.hidden, body.hidden] = [!message.length, message.length > 0];
      swap(none, ...message);
    };
    if (model.family !== "seq2seq") return only(...others(app));
    const [alignment, ...maps] = await Promise.all(asked(run)).catch((error) => {
      if (error.status !== 400) throw error;
      return [error]; // a model that cannot be aligned: without a tokenizer there are no words
    });
    if (!fresh()) return undefined;
    if (alignment instanceof api.Refused) return only(el("h2", { text: "No words to align" }), el("p", { text: alignment.message }));
    only();
    const [rows, columns] = [alignment.target, alignment.source].map((side) => side.map((text) => ({ text: visible(text), special: false })));
    const bytes = Uint8Array.from(alignment.soft.flat(), (weight) => Math.round(255 * Math.min(1, Math.max(0, weight))));
    const linked = new Uint8Array(bytes.length);
    for (const [t, s] of alignment.hard) linked[t * columns.length + s] = Math.max(128, bytes[t * columns.length + s]);
    state.word = Math.max(0, Math.min(rows.length - 1, state.word));
    const palette = words(colours(app.theme(), state.faint));
    swap(scale, legend(app.theme(), state.faint, "0", "1", "weight"));
    lines.show({ bytes: linked, rows, columns, threshold: 0, chosen: state.word });
    cells.show({ bytes, values: alignment.soft.flat(), rows, columns, chosen: state.word, zoom: 0, palette });
    cells.view.canvas.dataset.drawn = [run.run, "alignment", app.theme()].join();
    swap(right, written(app), linkTable(alignment, state.word), minimaps(app, maps, palette));
    return app.say(spoken(alignment, state.word));
  }

  return { node, show };
}

const asked = (run) => [api.json(`runs/${run.run}/alignment`), ...run.stacks.map(({ name }) => small(run, name))];

function* along({ run, model }) {
  if (model.family === "seq2seq") yield () => Promise.all(asked(run));
}

function spoken({ source, target, hard }, word) {
  const from = hard.filter(([t]) => t === word).map(([, s]) => `“${visible(source[s])}”`);
  return `“${visible(target[word] ?? "")}” comes from ${from.join(", ") || "no word"}`;
}

function written({ run, before }) {
  const now = run.predictions.text ?? "";
  const changed = before && before.predictions.text !== now;
  return el("section", { class: "card", "aria-label": "The translation" },
    el("h2", { text: changed ? "The translation, before and after" : "The translation" }),
    changed ? el("p", { class: "quote then", text: before.predictions.text }) : null,
    el("p", { class: "quote", text: now }), ...cut(run));
}

function linkTable(alignment, word) {
  const weights = alignment.soft[word] ?? [];
  const best = weights.map((_, s) => s).sort((a, b) => weights[b] - weights[a]).slice(0, 5);
  const rest = 1 - weights.reduce((sum, each) => sum + each, 0);
  const others = weights.reduce((sum, each) => sum + each, 0) - best.reduce((sum, s) => sum + weights[s], 0);
  return el("section", { class: "card", "aria-label": "The chosen word" },
    el("h2", { text: `“${visible(alignment.target[word] ?? "")}” comes from` }),
    table("Source words, the strongest first", ["source", "weight", ""], [
      ...best.map((s) => [visible(alignment.source[s]), valued(weights[s]), el("span", { class: "bar now", vars: { p: String(weights[s]) } })]),
      ...(weights.length > best.length ? [[`${weights.length - best.length} more`, valued(Math.max(0, others)), ""]] : []),
      ...(weights.length ? [[el("span", { class: "quiet", title: "Attention to tokens that are no word: the end of the sentence and other special tokens", text: "special tokens" }), valued(Math.max(0, rest)), ""]] : []),
    ], { class: "values" }));
}

function minimaps(app, maps, palette) {
  return el("section", { class: "card minis", "aria-label": "The three kinds of attention" },
    el("h2", { text: "Encoder, decoder, cross" }),
    el("div", { class: "row-of" }, ...app.run.stacks.map(({ name, layers, heads }, i) => el("button", {
      type: "button", class: "mini", asks: !app.has("map"), "aria-label": `Map of the ${name}: ${layers} layers of ${heads} heads`,
      on: { click: () => app.update({ page: "map", stack: name }) },
    }, mini(app.run, name, maps[i], palette, [app.run.run, app.theme(), app.state.faint].join()), el("span", { text: name })))));
}

/** All heads of a stack as one small picture. */
function mini(run, stack, { bytes, shape: [layers, heads, rows, columns] }, palette, drawn) {
  const canvas = el("canvas", { "aria-hidden": "true", "data-drawn": drawn });
  const [wide, high] = [columns + GAP, rows + GAP];
  const scale = Math.max(1, Math.floor(MINI / (heads * wide)));
  [canvas.width, canvas.height] = [heads * wide * scale, layers * high * scale];
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const area = rows * columns;
  canvas.shows = shows(run, stack, Array.from({ length: layers * heads }, (_, n) => {
    const [layer, head] = [Math.floor(n / heads), n % heads];
    const each = { layer, head, bytes: bytes.subarray(n * area, (n + 1) * area), rows, columns, palette, scale, left: head * wide * scale, top: layer * high * scale };
    paint(pixels, canvas.width, each.bytes, rows, columns, each.left, each.top, scale, palette);
    return each;
  }));
  pen.putImageData(image, 0, 0);
  return canvas;
}

function others(app) {
  const able = app.models.filter(({ family }) => family === "seq2seq");
  return [
    el("h2", { text: "This model does not translate" }),
    el("p", { text: able.length
      ? "Translation needs an encoder that reads and a decoder that writes. These models here have both:"
      : "Translation needs an encoder that reads and a decoder that writes. Start the studio with the folder of such a model, for example a Marian one: glassformer studio FOLDER" }),
    el("div", { class: "buttons" }, ...able.map(({ id, name }) => el("button", {
      type: "button", class: "main", text: name, on: { click: () => app.pick(id) },
    }))),
  ];
}
