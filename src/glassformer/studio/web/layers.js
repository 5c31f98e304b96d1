// When is the answer decided?

import * as api from "./api.js";
import { chart } from "./charts.js";
import { colours, words } from "./colour.js";
import { choice, el, exact, key, share, swap, table, valued, visible } from "./dom.js";
import { unitsOff } from "./lab.js";
import { matrix } from "./matrix.js";
import { legend } from "./picture.js";
import { intoSight, strip } from "./tokens.js";

export const layers = {
  id: "layers",
  name: "Layers",
  question: "When is the answer decided?",
  lead: "Every vector is decoded as if it came from the last layer: what would the model predict there, and how far is that from its final output?",
  caveat: "The logit lens decodes early layers with the last layer's weights: information in another form stays invisible.",
  build, along,
};

const COSINES = [["s0", "to embedding"], ["s2", "to end"], ["s1", "to the other word"]];

function build(app) {
  const tools = el("div", { class: "tools" });
  const cells = matrix({ name: "Probability of the final answer: rows are tokens, columns are layers", pick: (query) => app.update({ query }) });
  const scale = el("div", { class: "foot" });
  const mute = el("p", { class: "quiet" });
  const lens = el("section", { class: "card lens", "aria-label": "Logit lens" },
    el("h2", { title: "Each vector is decoded as if it were the last: how likely is the final answer there?", text: "Probability of the final answer by layer (logit lens)" }), mute, el("div", { class: "fit" }, cells.node), scale);
  const guesses = el("div", {});
  const distance = el("div", { class: "plot" });
  const atToken = el("section", { class: "card lens-at", "aria-label": "Logit lens at this token" }, guesses, el("h3", { title: "How far the prediction at each point is from the final one: 0 where all probabilities are final", text: "KL to final output (bits)" }), distance);
  const box = el("input", { "aria-label": "Another sentence", placeholder: "another sentence with the same word", spellcheck: "false", asks: true,
    on: { change: () => app.update({ other: box.value, mate: -1 }) } });
  const mates = el("div", {});
  const plot = el("div", { class: "plot" });
  const numbers = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of cosines" });
  const title = el("h2", {});
  const trajectory = el("section", { class: "card trajectory", "aria-label": "Trajectory of a word" }, title, box, mates, plot, numbers);
  const node = el("div", { class: "page-layers" }, tools, lens, atToken, trajectory);
  let split = "lens"; // what the card of the token shows
  const views = () => choice("Show", [["lens", "by layer"], ["parts", "by part", "What each head, MLP and embedding adds to the logit (direct logit attribution)"]], split,
    (to) => { split = to; show(); }, (to) => to === "parts");

  async function show() {
    const { run, model } = app;
    const fresh = app.fresh();
    const side = sideOf(app);
    const tokens = run.tokens.queries[side];
    const token = tokenOf(app, side);
    const both = model.family === "seq2seq";
    swap(tools, both ? choice("Stack", [["decoder", "decoder"], ["encoder", "encoder"]], side, (to) => app.update({ side: to })) : null,
      strip("The word", tokens, token, (query) => app.update({ query })));
    intoSight(tools.querySelector(".strip"));
    const { curves, mate, refused, steps, tops } = await asked(app, side, token);
    if (!fresh()) return;
    const missing = typeof curves === "string";
    mute.textContent = missing ? curves : "";
    [mute.hidden, cells.node.hidden, scale.hidden, atToken.hidden] = [!missing, missing, missing, missing];
    node.classList.toggle("mute", missing);
    if (!missing) drawLens(curves, tokens, token);
    if (!missing) {
      const parts = split === "parts" ? await api.json(`runs/${run.run}/parts/${token}`) : null;
      if (!fresh()) return;
      swap(guesses, views(), ...(parts ? adding(app, parts, token) : saying(curves, tops, tokens[token], token)));
      const values = curves.kl.map((row) => row[token]);
      swap(distance, chart({ label: `KL to final output in bits: ${values.map((each) => each.toFixed(2)).join(", ")}`, title: "KL to final output (bits)", places: curves.points.map(({ name }) => name), wide: Math.max(180, distance.clientWidth), high: distance.clientHeight,
        low: 0, most: Math.max(...values, 0.1), series: [{ kind: "s0", values }], ticks: named(curves.points), slanted: true }));
    }
    drawTrajectory(steps, tokens[token], mate, refused);
    const last = steps.points.length - 1;
    const turned = `“${visible(tokens[token].text)}”: cosine ${steps.to_start[last].toFixed(2)} from its embedding to its end`;
    const beside = mate ? `; ${steps.between[last].toFixed(2)} to “${visible(mate.tokens[mate.token].text)}” of the other sentence` : "";
    app.say(turned + beside);
  }

  function drawLens(curves, tokens, token) {
    const { state, run } = app;
    const bytes = Uint8Array.from(tokens.flatMap((_, t) => curves.p.map((row) => Math.round(255 * Math.min(1, row[t])))));
    swap(scale, legend(app.theme(), state.faint, "0", "1", "probability"));
    cells.show({ bytes, values: tokens.flatMap((_, t) => curves.p.map((row) => row[t])), rows: tokens.map(({ text, special }) => ({ text: visible(text), special })),
      columns: curves.points.map(({ name }) => ({ text: name, special: false })), chosen: token, zoom: 0, stretch: true,
      palette: words(colours(app.theme(), state.faint)) });
    cells.view.canvas.dataset.drawn = [run.run, "lens", app.theme(), state.faint].join();
  }

  function drawTrajectory(steps, own, mate, refused) {
    const name = `“${visible(own.text)}”`;
    swap(title, el("span", { text: `${name} through the layers` }), el("span", { class: "quiet", text: "cosines of its vector" }));
    if (box !== document.activeElement) box.value = mate?.text ?? app.state.other;
    swap(mates, mate ? strip("The word of the other sentence", mate.tokens, mate.token, (to) => app.update({ mate: to, other: mate.text }), {}, true) : el("p", { class: "quiet", text: refused }),
      key(...COSINES.slice(0, mate ? 3 : 2)));
    intoSight(mates.querySelector(".strip"));
    const lines = [steps.to_start, steps.to_end, steps.between];
    const series = COSINES.map(([kind, to], i) => ({ kind, name: to, values: lines[i] })).filter(({ values }) => values);
    const low = Math.min(0, ...series.flatMap(({ values }) => values));
    const ticks = named(steps.points);
    swap(plot, chart({ label: `Cosines of ${name} at ${steps.points.length} points`, places: steps.points.map(({ name: at }) => at), wide: Math.max(180, plot.clientWidth), high: plot.clientHeight, low, most: 1, series, ticks, slanted: true }));
    swap(numbers, table(`Cosines of ${name}`, ["point", "embedding", "end", ...(mate ? ["other word"] : [])], steps.points.map(({ name: at }, i) => [
      at, ...lines.filter(Boolean).map((values) => valued(values[i], exact)),
    ]), { class: "values cosines" }));
  }

  return { node, show };
}

/** Names of points for a scale; of many, every few. */
function named(points) {
  const every = Math.max(1, Math.ceil(points.length / 14));
  return points.map(({ name }, i) => [i, name]).filter(([i]) => i % every === 0);
}

/** The stack to show: the one that predicts words, unless the other is chosen. */
export function sideOf({ state, model }) {
  if (model.family === "seq2seq") return state.side === "encoder" ? "encoder" : "decoder";
  return model.family === "decoder" ? "decoder" : "encoder";
}

/** The selected token of this side. */
export const tokenOf = ({ state, run }, side) => Math.max(0, Math.min(run.tokens.queries[side].length - 1, state.query));

/** Why there is no lens, or an empty string. */
export function whyMute({ model }, side) {
  if (model.family === "seq2seq" && side === "encoder") return "An encoder predicts no words: the decoder does.";
  return model.predicts_tokens ? "" : "This model predicts no words, so it has no logit lens; its vectors can still be compared.";
}

/** The lens, or one line why there is none. */
const lensOf = async (app, side) => whyMute(app, side) || api.json(`runs/${app.run.run}/lens`);

/** All that is shown of a token; `refused`: why there is no other word to compare. */
async function asked(app, side, token) {
  const { run } = app;
  const own = run.tokens.queries[side][token];
  const refusal = (error) => { if (error.status !== 400) throw error; return error; };
  const [curves, other] = await Promise.all([lensOf(app, side), partner(app, own, side).catch(refusal)]);
  const refused = other instanceof api.Refused ? other.message : "";
  const mate = refused ? null : other;
  const beside = mate ? `?other=${mate.run.run}&mate=${mate.token}` : "";
  const [steps, tops] = await Promise.all([
    api.json(`runs/${run.run}/trajectory/${side}/${token}${beside}`),
    typeof curves === "string" ? null : api.json(`runs/${run.run}/lens/${token}`)]);
  return { curves, mate, refused, steps, tops };
}

function* along(app) {
  const sides = app.model.family === "seq2seq" ? [sideOf(app), sideOf(app) === "encoder" ? "decoder" : "encoder"] : [sideOf(app)];
  for (const side of sides) for (const token of app.run.tokens.queries[side].keys()) yield () => asked(app, side, token);
}

/** A token of another sentence to compare; the same word if possible. */
export async function partner(app, own, side) {
  const { state, model } = app;
  const word = own.text.toLowerCase();
  const holds = ({ text }) => text !== state.text && text.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.includes(word);
  const text = state.other || (own.special ? "" : model.samples.find(holds)?.text ?? "");
  if (!text) return null;
  const run = await api.run(model.id, text, "", state.off, { ...app.saved(), ...unitsOff(state) });
  const tokens = run.tokens.queries[side];
  const same = tokens.findIndex((token) => token.text.toLowerCase() === word);
  const first = tokens.findIndex(({ special }) => !special);
  const token = state.mate >= 0 ? Math.min(tokens.length - 1, state.mate) : Math.max(0, same >= 0 ? same : first);
  return { run, text, tokens, token };
}

/** Signed bars of what adds to the logit of the best word; the name of a head opens it. */
function adding({ address, state }, { answer, other, difference, parts }, query) {
  const most = Math.max(...parts.map(({ value }) => Math.abs(value)), 1e-9);
  return [
    el("h2", { text: `logit “${visible(answer)}” − logit “${visible(other)}” = ${difference.toFixed(2)}` }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of parts" },
      table("What each part adds", ["part", "adds", ""], parts.map(({ name, value, stack, layer, head }) => [
        stack ? el("a", { href: address({ ...state, page: "head", stack, layer, head, query, view: "raw" }), text: name }) : name,
        valued(value, exact), el("span", { class: value < 0 ? "bar minus" : "bar now", vars: { p: String(Math.abs(value) / most) } }),
      ]), { class: "values adding" })),
  ];
}

function saying({ points, words: last, p, kl }, { tops }, own, token) {
  const most = Math.max(...kl.map((row) => row[token]), 1e-9);
  return [
    el("h2", {}, `At “${visible(own.text)}” it ends with “${visible(last[token])}”`),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of the lens" },
      table("Logit lens at each point", ["point", "top", "p", `p of “${visible(last[token])}”`, "KL (bits)", ""], points.map(({ name }, i) => [
        name, el("td", { class: "guess", title: tops[i].map(({ text, p: chance }) => `${visible(text)} ${share(chance)}`).join(", "), text: visible(tops[i][0].text) }),
        valued(tops[i][0].p), valued(p[i][token]), valued(kl[i][token], (bits) => bits.toFixed(2)),
        el("span", { class: "bar now", vars: { p: String(kl[i][token] / most) } }),
      ]), { class: "values lensed" })),
  ];
}
