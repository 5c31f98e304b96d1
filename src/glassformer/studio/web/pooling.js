// Which words make up a document?

import * as api from "./api.js";
import { choice, el, number, select, share, swap } from "./dom.js";
import { sheet } from "./sheets.js";
import { strip } from "./tokens.js";

const TABS = [["slides", "the slides' numbers"], ["variants", "variants, trained here"], ["model", "this model"]];
const REVIEW = "We saw it on a rainy night. The plot was not dull. The room was full.";

const MOST = 60; // words whose numbers are exported
const wordsOf = ([{ sentences }]) => sentences.flatMap(({ words }) => words);

/** What can be shown: a model without attention over words has only the first two. */
export const poolsOf = ({ model }) => TABS.slice(0, model.pools ? 3 : 2).map(([id]) => id);
export const poolOf = (app) => (poolsOf(app).includes(app.state.pool) ? app.state.pool : app.model.pools ? "model" : "slides");

/** What the page shows, from the server. */
export function shownBy(app) {
  const { vectors, word, review, text } = app.state;
  const pool = poolOf(app);
  if (pool === "slides") return api.json("slides/pooling");
  return api.post("pooling", { vectors, word, ...(pool === "model" ? { model: app.model.id, text, ...app.saved() } : { text: review || REVIEW }) });
}

export const pooling = {
  id: "pooling",
  name: "Pooling",
  question: "Which words make up a document?",
  lead: "A learned vector v scores every word: r = v · x. The softmax of the scores gives the weights a, and the document is Σ a x; or words make sentences, and sentences the document.",
  caveat: "A large weight says that a word's vector counts, not that the word alone decides: the label depends on the whole mixture.",
  build, formless: (app) => poolOf(app) !== "model",
  *along(app) {
    for (const pool of poolsOf(app)) {
      const at = (change) => shownBy({ ...app, state: { ...app.state, pool, ...change } });
      yield async () => {
        const { variants } = await at({});
        await Promise.all(variants ? wordsOf(variants).slice(0, MOST).map((_, word) => at({ word })) : []);
      };
    }
  },
  needs: shownBy,
};

function build(app) {
  const tools = el("div", { class: "tools" });
  const box = el("input", { "aria-label": "Document", placeholder: "a film review", spellcheck: "false", asks: true, on: { change: () => app.update({ review: box.value, word: 0 }) } });
  const field = el("label", { class: "field review" }, "document", box);
  const cards = el("div", { class: "pools" });
  const walk = el("div", { class: "sheets" });
  const node = el("div", { class: "page-pooling" }, tools, field, cards, walk);

  async function show() {
    const { state } = app;
    const fresh = app.fresh();
    const pool = poolOf(app);
    const { sheets, variants = [], vectors = [] } = await shownBy(app);
    if (!fresh()) return;
    field.hidden = pool !== "variants";
    if (box !== document.activeElement) box.value = state.review || REVIEW;
    swap(tools,
      choice("Show", TABS.filter(([id]) => poolsOf(app).includes(id)), pool, (to) => app.update({ pool: to, vectors: "", word: 0 }), (to) => !app.holds({ pool: to, vectors: "", word: 0 })),
      vectors.length ? el("label", { class: "field" }, "vectors", select(vectors, state.vectors, (to) => app.update({ vectors: to }), { "aria-label": "Word vectors", asks: true })) : null);
    if (variants.length) state.word = Math.min(wordsOf(variants).length - 1, state.word);
    const chosen = Math.min(variants.length - 1, state.variant);
    swap(cards, ...variants.map((each, i) => card(app, each, i, chosen)));
    swap(walk, ...(sheets ?? variants[chosen].walk).map(sheet));
    app.say(variants.length ? variants[chosen].summary : "v · x → r → a → mixture, on the slide's five words");
  }

  return { node, show };
}

/** One variant: its sentences as they weigh, each word as it weighs in its sentence. */
function card(app, { name, formula, labels, sentences }, i, chosen) {
  const { word } = app.state;
  let first = 0;
  const rows = sentences.flatMap(({ words, weight }, n) => {
    const start = first;
    first += words.length;
    return words[0].weights.map((_, h) => el("div", { class: "sentence" },
      el("span", { class: "quiet", title: "The sentence's share of the document" }, ...(h ? [] : [share(weight), el("span", { class: "bar now", vars: { p: String(weight) } })])),
      strip(`Sentence ${n + 1}${words[0].weights.length > 1 ? `, head ${h + 1}` : ""}`, words.map(({ text }) => ({ text, special: false })), word - start,
        (at) => app.update({ word: start + at, variant: i }), Object.fromEntries(words.map((_each, at) => [at, "positive"])), !app.holds({ word: first - 1 }),
        Object.fromEntries(words.map(({ scores, weights }, at) => [at, { tint: weights[h].toFixed(3), title: `r ${number(scores[h])}, a ${share(weights[h])}` }])))));
  });
  return el("section", { class: "card pooled", "aria-label": name, "aria-current": i === chosen ? "true" : null },
    el("h2", {}, name, el("span", { class: "quiet", text: formula }), el("span", { class: "badge", text: `${labels[0].text} ${share(labels[0].p)}` })),
    ...rows,
    el("div", { class: "buttons" }, el("button", { type: "button", class: "plain", "aria-pressed": String(i === chosen), text: "Show its numbers", on: { click: () => app.update({ variant: i }) } })));
}
