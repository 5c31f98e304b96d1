// Which words and parts made the prediction?

import * as api from "./api.js";
import { chart, svg } from "./charts.js";
import { choice, el, key, select, swap, visible } from "./dom.js";
import { stepper } from "./head.js";
import { sideOf, tokenOf } from "./layers.js";
import { sheet } from "./sheets.js";
import { intoSight, strip } from "./tokens.js";

const KINDS = [["input", "words"], ["circuit", "circuit"], ["steer", "steering"], ["probe", "probe"], ["lens", "tuned lens"]];
const METHODS = ["integrated_gradients", "gradient_x_input", "occlusion", "value_zeroing", "attention_rollout"];

export const causes = {
  id: "causes",
  name: "Causes",
  question: "Which words and parts made this prediction?",
  lead: "Input attribution, circuits, steering, probes and the tuned lens, with checks of how much to believe them.",
  caveat: "A cause belongs to this text, or to this pair of texts: it is no law of the model.",
  build, *along(app) { yield () => causeOf(app); },
};

const sideIn = ({ state, model }) => sideOf({ state: { ...state, side: "" }, model });

/** Of the run without changes. */
export async function causeOf(app) {
  const { state: { cause, method, towards, away, layer, strength, labelled, texts, donor, edges }, state, model } = app;
  const run = app.before ?? app.run;
  const other = cause === "circuit" && donor ? await api.run(model.id, donor, "", [], app.saved()) : null;
  return api.post("causes", { run: run.run, kind: cause, token: tokenOf({ state, run }, sideIn(app)),
    ...{ input: { method }, circuit: { edges, other: other?.run ?? null }, steer: { towards, away, layer, strength }, probe: { labelled }, lens: { texts } }[cause] });
}

function build(app) {
  const tools = el("div", { class: "tools" });
  const form = el("div", { class: "tools" });
  const mute = el("section", { class: "card none", role: "note", hidden: true });
  const cards = el("div", { class: "sheets" });
  const node = el("div", { class: "page-causes" }, tools, form, mute, cards);

  async function show() {
    const fresh = app.fresh();
    const side = sideIn(app);
    swap(tools, choice("Method", KINDS, app.state.cause, (cause) => app.update({ cause }), () => true),
      strip("The token that predicts", app.run.tokens.queries[side], tokenOf(app, side), (query) => app.update({ query }), {}, api.held !== null));
    intoSight(tools.querySelector(".strip"));
    swap(form, ...fields(app));
    const answer = await causeOf(app).catch((error) => { if (error.status !== 400) throw error; return error; });
    if (!fresh()) return;
    const refused = answer instanceof Error;
    [mute.hidden, cards.hidden, mute.textContent] = [!refused, refused, refused ? answer.message : ""];
    if (!refused) swap(cards, ...pictures(answer, cards.clientWidth), ...answer.sheets.map(sheet));
    app.say(refused ? answer.message : answer.conclusion);
  }

  return { node, show };
}

/** What the method needs besides the sentence. */
function fields(app) {
  const { state, run } = app;
  const change = (name) => (value) => app.update({ [name]: value });
  const box = (name, label, placeholder) => el("label", { class: "field" }, label,
    el("textarea", { placeholder, spellcheck: "false", asks: true, text: state[name], on: { change: ({ target }) => change(name)(target.value) } }));
  const steps = (name, most, least = 0) => stepper(name, Math.min(most, state[name]), most, change(name), least, () => true);
  return {
    input: () => [select(METHODS.map((each) => [each, each.replaceAll("_", " ")]), state.method, change("method"), { "aria-label": "Scores by", asks: true })],
    circuit: () => [box("donor", "another sentence", "as many tokens, other words"), steps("edges", 999, 1)],
    steer: () => [box("towards", "towards", "texts of one kind, one a line"), box("away", "away from", "texts of the other kind"), steps("layer", run.stacks[0].layers - 1), steps("strength", 99)],
    probe: () => [box("labelled", "words with labels", "a word and its label a line")],
    lens: () => [box("texts", "texts", "one a line; empty: the examples")],
  }[state.cause]();
}

function pictures({ places, curves, nodes, edges, conclusion }, wide) {
  const values = curves.flatMap((each) => each.values);
  const series = curves.map((each, i) => ({ ...each, kind: `s${i}` }));
  const card = (...parts) => el("section", { class: "card drawn", tabindex: "0", role: "group", "aria-label": "Picture" }, ...parts);
  return [
    ...(curves.length ? [card(key(...series.map(({ kind, name }) => [kind, name])), chart({ label: conclusion, places, wide: Math.max(240, Math.min(720, wide - 40)), high: 200,
      low: Math.min(0, ...values), most: Math.max(0.1, ...values), series, ticks: places.map((_, i) => [i, String(i)]).filter(([i]) => i % Math.ceil(places.length / 16) === 0) }))] : []),
    ...(nodes.length ? [card(key(["s0", "helps the answer"], ["s1", "works against it"]), graph(nodes, edges, conclusion, wide - 40))] : []),
  ];
}

/** From the bottom up; a thick edge has a large effect, a long one is bent. */
function graph(nodes, edges, label, wide) {
  const [columns, rows] = ["x", "y"].map((name) => new Set(nodes.map((each) => each[name])).size);
  const [room, high] = [Math.max(wide, 124 * columns), 64 * rows - 24];
  const most = Math.max(...edges.map(({ effect }) => Math.abs(effect)), 1e-9);
  const at = ({ x, y }) => [x * room, 20 + y * (high - 40)];
  return svg("svg", { class: "chart", role: "img", "aria-label": `Graph: ${label}`, width: room, height: high },
    ...edges.map(({ writer, reader, effect }) => {
      const [[x1, y1], [x2, y2]] = [nodes[writer], nodes[reader]].map(at);
      return svg("path", { class: `edge ${effect > 0 ? "s1" : "s0"}`, d: `M${x1} ${y1 - 10}Q${(x1 + x2) / 2 + (y1 - y2) / 4} ${(y1 + y2) / 2} ${x2} ${y2 + 10}`, "stroke-width": 0.6 + 5 * Math.abs(effect) / most });
    }),
    ...nodes.map((each) => svg("text", { x: at(each)[0], y: at(each)[1] + 4, "text-anchor": "middle", text: visible(each.name) })));
}
