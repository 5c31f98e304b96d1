// Shuffle the words: what changes?

import * as api from "./api.js";
import { colours, words } from "./colour.js";
import { el, number, share, swap, tick, visible } from "./dom.js";
import { everyHead, whichHead } from "./head.js";
import { matrixCard } from "./matrix.js";
import { legend } from "./picture.js";
import { candidates } from "./predictions.js";
import { sides } from "./tokens.js";

const SAME = 0.0005; // too small to see

export function shuffle(app) {
  const texts = el("section", { class: "card", "aria-label": "Words" });
  const answer = el("section", { class: "card answer", "aria-label": "Predictions" });
  const [before, after] = [["before", "Attention before"], ["after", "Attention after, words put back in their old order"]].map(([when, title]) => {
    const card = matrixCard(title, { name: `Attention ${when}: rows look, columns are looked at`, pick: (query) => app.update({ query }) });
    card.title.textContent = title;
    return card;
  });
  after.foot.append(el("p", { class: "quiet", text: "Where both pictures are the same, the order did not matter." }));
  const node = el("div", { class: "page-shuffle", hidden: true }, el("div", { class: "right" }, texts, answer), before.node, after.node);

  function tools() {
    return [
      el("button", { type: "button", class: "main", text: "Shuffle again", asks: true, on: { click: () => app.update({ shuffled: app.state.shuffled + 1 }) } }),
      tick("without positions", app.state.flat, (flat) => app.update({ flat }), "As if the model had none: nothing is added, nothing is turned"),
      ...whichHead(app),
    ];
  }

  async function show(fresh) {
    const { state, run } = app;
    const result = await shuffled(app, state.flat).catch((error) => {
      if (error.status !== 400) throw error;
      return error;
    });
    if (!fresh()) return;
    const refused = result instanceof api.Refused;
    for (const part of [before.fit, before.foot, after.fit, after.foot, answer]) part.hidden = refused;
    if (refused) {
      swap(texts, el("h2", { text: "Nothing to shuffle" }), el("p", { text: result.message }));
      app.say(result.message);
      return;
    }
    const { stack, layer, head, query } = state;
    const [asking, asked] = sides(run, stack);
    const tokens = run.tokens.queries[run.tokens.queries.encoder ? "encoder" : "decoder"];
    const moved = result.moved[stack];
    swap(texts, el("h2", { text: "The words" }), line("before", tokens, []), line("after", result.after, result.order),
      el("p", { class: "worked" }, el("b", { text: number(100 * moved) }), el("span", { class: "quiet", text: "% of all attention goes elsewhere" })),
      el("p", { text: verdict(app, result) }));
    swap(answer, ...answers(app, result));
    const palette = words(colours(app.theme(), state.faint));
    const name = ({ text, special }) => ({ text: visible(text), special });
    swap(before.foot, legend(app.theme(), state.faint, "0", "1", "weight"));
    const seen = await pictures(result, [stack, layer, head]);
    if (!fresh()) return;
    [before, after].forEach(({ cells }, i) => {
      cells.show({ bytes: seen[i].bytes, rows: asking.map(name), columns: asked.map(name), chosen: query, zoom: 0, palette });
      cells.view.canvas.dataset.drawn = [result.shuffle, i ? "after" : "before", stack, layer, head, app.theme(), state.faint].join();
    });
    app.say(`“${result.after.filter(({ special }) => !special).map(({ text }) => text).join(" ")}”: ${number(100 * moved)} percent of all attention goes elsewhere. ${verdict(app, result)}`);
  }

  return { node, tools, show };
}

export const shuffled = ({ run, state }, flat) => api.post("shuffles", { run: run.run, seed: state.shuffled % 2 ** 31, positions: !flat });
const pictures = ({ shuffle: id }, at) => Promise.all(["before", "after"].map((when) => api.bytes(`shuffles/${id}/${when}/${at.join("/")}`)));

/** All requests about this order, with positions and without. */
export function* shuffles(app) {
  const heads = everyHead(app);
  for (const flat of [app.state.flat, !app.state.flat]) {
    yield () => shuffled(app, flat);
    for (const at of heads) yield async () => pictures(await shuffled(app, flat), at);
  }
}

/** The words in a row; those that have moved stand out. */
function line(label, tokens, order) {
  return el("div", { class: "words", role: "group", "aria-label": `The words ${label}` }, el("span", { class: "quiet", text: label }),
    ...tokens.map((token, i) => el("span", { class: `${token.special ? "special" : ""} ${order.length && order[i] !== i ? "moved" : ""}`, text: visible(token.text) })));
}

/** The predictions at the chosen token, else the last. */
const placeOf = ({ at }, query) => at.find(({ token }) => token === query) ?? at[at.length - 1];

function answers({ state }, result) {
  const now = placeOf(result.predictions_after, state.query);
  const then = now && result.predictions.at.find(({ token }) => token === now.token);
  if (!then) return [el("h2", { text: "Predictions" }), el("p", { class: "quiet", text: "This model predicts nothing at a token; write a mask if it fills them." })];
  return [el("h2", { text: "Predictions" }), candidates(now, then, "Predictions", "before and after the shuffle")];
}

/** The least change of a probability: of an unlisted word only the upper bound is known. */
function apart([before, after]) {
  const chance = (list, { id, p }) => list.find((each) => each.id === id)?.p ?? Math.min(p, list[list.length - 1].p);
  const by = (one, two) => one.map((each) => Math.abs(each.p - chance(two, each)));
  return Math.max(...by(before, after), ...by(after, before));
}

function verdict({ state }, result) {
  const places = result.predictions.at.map(({ token, top }) => [top, result.predictions_after.at.find((each) => each.token === token)?.top]).filter(([, top]) => top);
  const most = Math.max(0, ...places.map(apart));
  const still = Math.max(...Object.values(result.moved)) < SAME && most < SAME;
  if (still) return state.flat ? "Without positions nothing changes: the words are a bag." : "Nothing changes: this model does not know where its words stand.";
  return places.length ? `A probability changes by ${share(most)} or more.` : "The attention changes.";
}
