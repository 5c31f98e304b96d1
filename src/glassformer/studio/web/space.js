// Which words are alike? Words and sentences of several texts in two dimensions.

import * as api from "./api.js";
import { choice, el, exact, share, swap, table, valued, visible } from "./dom.js";
import { scatter } from "./scatter.js";
import { intoSight } from "./tokens.js";

const NEAREST = 12; // words in the table of cosines
const LONG = 3; // letters: shorter words are seldom interesting
export const PLANES = ["words", "word", "sentences"];
const TITLES = {
  words: ["all words", "The two directions in which all these words differ most, over all layers (principal components)"],
  word: ["one word", "The two directions in which the occurrences of the chosen word differ most: do its meanings part?"],
  sentences: ["sentences", "Each text as one vector, as model.embed returns it"],
};

export const space = {
  id: "space",
  name: "Space",
  question: "Which words are alike?",
  lead: "The words of several texts as points, by their vectors in this model. Move through the layers: a word's path shows what its context makes of it.",
  caveat: "Two dimensions show a part of what differs; the cosines are exact. Vectors have length 1 here, and each layer is centred separately. Interventions are ignored here.",
  build, along,
  needs: ({ space: row, state }) => row && about(row, state.dot),
};

/** The texts to compare: the user's, else this model's. */
export const textsOf = ({ state, model }) => (linesOf(state.texts).length ? linesOf(state.texts) : model.texts);
const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

const asked = (app) => api.post("spaces", { model: app.model.id, texts: textsOf(app), ...app.saved() });
const about = ({ space: id }, word) => api.json(`spaces/${id}/words/${word}`);
const embedded = ({ space: id }) => api.json(`spaces/${id}/sentences`);

function* along(app) {
  const row = app.space;
  if (!row) return;
  yield () => embedded(row);
  for (const word of row.words.keys()) yield () => about(row, word);
}

/** The word to begin with: the longest of those that most texts have. */
function telling({ words }) {
  const like = ({ word }) => words.filter((each) => each.word.toLowerCase() === word.toLowerCase()).length;
  const weigh = (each) => (each.word.length > LONG ? like(each) : 0) + each.word.length / 100;
  return words.reduce((best, each, i) => (weigh(each) > weigh(words[best]) ? i : best), 0);
}

function build(app) {
  const tools = el("div", { class: "tools" });
  const slider = el("input", { type: "range", min: "0", "aria-label": "Layer", on: { input: () => app.update({ point: Number(slider.value) }) } });
  const where = el("output", {});
  const layer = el("label", { class: "field" }, "layer", slider, where);
  const planes = el("div", {});
  const seen = el("span", { class: "quiet" });
  tools.append(planes, layer, seen);
  const list = el("ol", { class: "texts" });
  const box = el("textarea", { "aria-label": "Own texts, one a line", rows: "4", spellcheck: "false", asks: true });
  const own = el("form", { class: "own", on: { submit: (event) => { event.preventDefault(); app.update({ texts: box.value.trim(), dot: -1 }); } } },
    el("h3", { text: "Own texts, one a line" }), box,
    el("div", { class: "buttons" }, el("button", { class: "main", text: "Compare", asks: true }), el("button", { type: "button", class: "plain", text: "Reset", asks: true, on: { click: () => app.update({ texts: "", dot: -1 }) } })));
  const plot = el("div", { class: "plot" });
  const note = el("p", { class: "quiet" });
  const right = el("section", { class: "card likeness", "aria-label": "Cosines" });
  const node = el("div", { class: "page-space" }, tools,
    el("section", { class: "card chosen-texts", "aria-label": "The texts" }, list, own),
    el("section", { class: "card", "aria-label": "Points" }, note, plot), right);

  async function show() {
    const { state, model } = app;
    const fresh = app.fresh();
    const row = await asked(app);
    if (!fresh()) return;
    app.space = row;
    const last = row.points.length - 1;
    state.point = state.point < 0 ? last : Math.min(last, state.point);
    state.dot = state.dot < 0 ? telling(row) : Math.min(row.words.length - 1, state.dot);
    own.hidden = model.kind === "trace";
    if (box !== document.activeElement) box.value = textsOf(app).join("\n");
    const refusal = (error) => { if (error.status !== 400) throw error; return error; };
    const [one, whole] = await Promise.all([about(row, state.dot), state.plane === "sentences" ? embedded(row).catch(refusal) : null]);
    if (!fresh()) return;
    swap(planes, choice("Show", PLANES.map((id) => [id, ...TITLES[id]]), state.plane, (plane) => app.update({ plane })));
    slider.max = String(last);
    slider.value = String(state.point);
    where.textContent = row.points[state.point].name;
    layer.hidden = state.plane === "sentences";
    swap(list, ...textsOf(app).map((_, i) => el("li", {}, line(app, row, i))));
    for (const each of list.querySelectorAll(".strip")) intoSight(each);
    const picture = whole instanceof Error ? null : drawn(app, row, one, whole);
    note.textContent = whole instanceof Error ? whole.message : said(app, row, one);
    note.hidden = !note.textContent;
    seen.textContent = picture ? `two dimensions show ${Math.round(100 * picture.shown)} % of the variance` : "";
    const [wide, high] = [Math.max(200, plot.clientWidth), Math.max(240, plot.clientHeight)];
    swap(plot, picture ? scatter({ ...picture, wide, high }) : null);
    swap(right, ...(picture && whole ? sentenceTable(app, whole) : wordTable(app, row, one)));
    app.say(spoken(app, row, one, whole));
  }

  return { node, show };
}

/** One text as buttons, a word each. */
function line(app, { words }, text) {
  const { dot } = app.state;
  const name = words[dot].word.toLowerCase();
  return el("div", { class: "strip", role: "group", "aria-label": `Text ${text + 1}` },
    ...words.map((each, i) => [each, i]).filter(([each]) => each.text === text).map(([{ word }, i]) => el("button", {
      type: "button", class: word.toLowerCase() === name ? "asked" : "", "aria-pressed": String(i === dot), text: visible(word), asks: !app.holds({ dot: i }),
      on: { click: () => app.update({ dot: i }) },
    })));
}

/** What is drawn: dots, paths, and how much of the variance they show. */
function drawn(app, row, one, whole) {
  const { state: { plane, point, dot } } = app;
  const texts = textsOf(app);
  const pick = (i) => app.update({ dot: i });
  const titled = ({ word, text }) => `“${visible(word)}” in ${text + 1}: ${texts[text]}`;
  const kindOf = (i) => (i === dot ? "chosen" : one.same.includes(i) ? "same" : "other");
  if (plane === "sentences") {
    const chosen = row.words[dot].text;
    const dots = whole.xy.map((xy, i) => ({ xy, name: String(i + 1), title: `${i + 1}: ${texts[i]}`, kind: i === chosen ? "chosen" : "other" }));
    return { label: `${dots.length} texts in two dimensions`, dots, room: whole.xy, shown: whole.shown, pick: (i) => pick(row.words.findIndex(({ text }) => text === i)) };
  }
  const alone = plane === "word";
  const [from, shown, which] = alone ? [one.xy, one.shown, one.same] : [row.xy, row.shown, row.words.map((_, i) => i)];
  const dots = which.map((word, i) => ({
    xy: from[point][i], kind: kindOf(word), title: titled(row.words[word]),
    name: kindOf(word) === "other" ? row.words[word].word : `${row.words[word].word} ${row.words[word].text + 1}`,
    path: kindOf(word) === "other" ? null : from.map((each) => each[i]),
  }));
  return { label: `${dots.length} words at ${row.points[point].name}`, dots, room: from.flat(), shown: shown[point], pick: (i) => pick(which[i]) };
}

/** What has to be said about the picture. */
function said({ model, state }, { side }, { same }) {
  if (state.plane === "word" && same.length === 1) return "The texts have this word once: choose one that stands in several.";
  return model.family === "seq2seq" ? `These are the ${side}'s vectors: it reads the source.` : "";
}

function spoken({ state: { dot, point, plane } }, { words, points }, { cosines, same }, whole) {
  if (whole instanceof Error) return whole.message;
  if (plane === "sentences") return `${whole.xy.length} texts as points`;
  const others = same.filter((i) => i !== dot).map((i) => `${exact(cosines[point][i])} to the one in text ${words[i].text + 1}`);
  return `“${visible(words[dot].word)}” in text ${words[dot].text + 1}, ${points[point].name}${others.length ? `: cosine ${others.join(", ")}` : ""}`;
}

function wordTable({ state: { dot, point } }, { words, points }, { cosines, same }) {
  const { word, text } = words[dot];
  const best = cosines[point].map((_, i) => i).filter((i) => i !== dot).sort((a, b) => cosines[point][b] - cosines[point][a]);
  const others = best.filter((i) => same.includes(i));
  const shown = [...others, ...best.filter((i) => !others.includes(i)).slice(0, NEAREST)];
  return [
    el("h2", {}, `“${visible(word)}” in text ${text + 1}`, el("span", { class: "quiet", text: "cosines, the same word first" })),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of cosines" },
      table(`Cosines of “${visible(word)}”`, ["word", "text", points[0].name, points[point].name, ""], shown.map((i) => [
        visible(words[i].word), el("td", { text: words[i].text + 1 }), valued(cosines[0][i], exact), valued(cosines[point][i], exact),
        el("span", { class: "bar now", vars: { p: String(Math.max(0, cosines[point][i])) } }),
      ]), { class: "values alike" })),
  ];
}

function sentenceTable(app, { cosines, pooling }) {
  const names = textsOf(app);
  return [
    el("h2", {}, "Sentence vectors", el("span", { class: "quiet", title: "How the tokens' vectors become one, as model.embed does it", text: `pooling: ${pooling.join(" + ")}` })),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of cosines" },
      table("Cosines of the texts", ["text", ...names.map((_, i) => String(i + 1))], cosines.map((row, i) => [
        el("span", { title: names[i], text: String(i + 1) }), ...row.map((value) => valued(value, share, { class: "tone", vars: { p: String(Math.max(0, value)) } }))]), { class: "values pairs" })),
  ];
}
