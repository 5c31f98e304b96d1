// The same in Python: the run's code comes from the server, the page's from here.

import * as api from "./api.js";
import { causeOf } from "./causes.js";
import { rivalRun } from "./compare.js";
import { pythonOf } from "./lab.js";
import { partner, sideOf, tokenOf, whyMute } from "./layers.js";
import { shownBy } from "./pooling.js";
import { slideSheets } from "./positions.js";
import { shuffled } from "./shuffle.js";
import { textsOf } from "./space.js";
import { sheetsOf } from "./toy.js";
import { ownRun } from "./training.js";

const codeOf = async (run) => (await pythonOf(run)).code;

/** Two runs: the first is `first` then, the second `trace`; shared lines come once. */
async function both(one, other) {
  const [code, more] = await Promise.all([one, other].map(codeOf));
  const known = code.split("\n");
  return [code, "first = trace", ...more.split("\n").filter((line) => line && !(/^(import|from|model|text)\b/.test(line) && known.includes(line)))].join("\n");
}

/** The code with one more import in its second line. */
const using = (from, names, code, ...lines) => [code.replace("\n", `\nfrom glassformer.${from} import ${names}\n`), ...lines];

const unchanged = ({ before }) => (before ? ["# without the interventions"] : []);

async function viewed({ run, state: { page, stack, layer, head, query, view } }) {
  const code = await codeOf(run);
  if (page === "head" && view === "value") {
    return using("glass", "value_weighted", code, `sent = value_weighted(model, trace, "${stack}")[${layer}, ${head}]`, "weights = sent / sent.sum(-1, keepdim=True)");
  }
  const weighed = page === "head" && !["raw", "all"].includes(view) ? `, weights="${view}"` : "";
  return [code, `trace.view("${page === "map" ? "map" : "head"}", stack="${stack}", layer=${layer}, head=${head}, token=${query}${weighed})`];
}

/** A head in two runs, and their difference if their shapes are equal. */
async function apart({ state: { stack, layer, head } }, one, other) {
  const shapes = [one, other].map(({ stacks }) => JSON.stringify(stacks.find(({ name }) => name === stack)));
  return using("glass", "weights", await both(one, other),
    `one, other = (weights(each, "${stack}")[${layer}, ${head}] for each in (first, trace))`, ...(shapes[0] === shapes[1] ? ["difference = other - one"] : []));
}

async function whole({ run, model: { predicts_tokens: able } }) {
  const sides = Object.keys(run.tokens.queries);
  return using("glass", able ? "lens, stream" : "stream", await codeOf(run),
    `norms = {name: x.norm(dim=-1) for side in ${JSON.stringify(sides)} for name, x in stream(trace, side, inside=True).items()}`,
    ...(able ? ["guesses = lens(model, trace, top_k=1)"] : []));
}

async function layers(app) {
  const { run } = app;
  const side = sideOf(app);
  const token = tokenOf(app, side);
  const mate = await partner(app, run.tokens.queries[side][token], side).catch(() => null);
  const decides = !whyMute(app, side);
  return using("glass", [...(mate ? ["between"] : []), ...(decides ? ["decided"] : []), "word_path"].join(", "), await (mate ? both(mate.run, run) : codeOf(run)),
    ...(decides ? ["answer = decided(model, trace)"] : []),
    `path = word_path(trace, ${token}, "${side}", inside=True)`,
    ...(mate ? [`cosines = between((trace, ${token}), (first, ${mate.token}), "${side}", inside=True)`] : []));
}

async function positions(app) {
  const { state, run, model } = app;
  if (state.show === "slides") return [(await slideSheets()).python];
  if (state.show === "lecture") return ["from glassformer.studio.views.positions import lecture_positions", "", "positions = lecture_positions()"];
  const code = await codeOf(run);
  if (state.show === "model") return using("studio.views.positions", "model_positions", code, `positions = model_positions(model, "${state.stack === "encoder" ? "encoder" : "decoder"}")`);
  const { order } = await shuffled(app, state.flat);
  const translates = model.family === "seq2seq";
  const moved = "[ids[i] for i in order]";
  return using("studio.views.shuffle", state.flat ? "no_positions, token_ids" : "token_ids", code, ...unchanged(app),
    `order = ${JSON.stringify(order)}`, `ids = token_ids(model, trace.${translates ? "source_tokens" : "tokens"})`,
    `shuffled = gf.record(model, ${translates ? `(${moved}, token_ids(model, trace.tokens))` : moved}${state.flat ? ", edit=no_positions(model)" : ""})`);
}

async function spaced({ run, model, space, state: { plane, point, dot }, state }) {
  const code = await codeOf(run);
  if (!space || model.kind === "trace") return [code];
  const texts = `texts = ${JSON.stringify(textsOf({ model, state }))}`;
  if (plane === "sentences") return [code, texts, "vectors = model.embed(texts)", "cosines = model.similarity(vectors, vectors)"];
  return using("studio.views.space", "word_space", code, texts, "space = word_space(model, texts)", `cosines = space.units[${point}] @ space.units[${point}, ${dot}]`);
}

async function units({ run, unit }) {
  const [side, layer, number] = unit.split(".");
  return [await codeOf(run), `values = trace["${side}.blocks.${layer}.mlp.hidden"][:, ${number}]`];
}

async function training(app) {
  const { run, state } = app;
  const { folder } = await pythonOf(run);
  const lines = state.saved < 0 ? await viewed(app) : await apart(app, await ownRun(app), run);
  return folder ? using("train.curves", "read", lines.join("\n"), `losses = read(${JSON.stringify(folder)})`) : lines;
}

const PAGES = {
  causes: async (app) => [(await causeOf(app)).python],
  pooling: async (app) => [(await shownBy(app)).python],
  toy: async ({ state }) => [(await sheetsOf(state)).python],
  model: whole, layers, positions, training, space: spaced, neurons: units,
  numbers: async ({ run, state: { stack, layer } }) => [await codeOf(run), `steps = {name: tensor for name, tensor in trace.items() if ".blocks.${layer}." in name and name.startswith("${stack === "encoder" ? "encoder" : "decoder"}")}`],
  translate: async (app) => (app.run.predictions.text ? using("generate.align", "align", await codeOf(app.run), ...unchanged(app),
    `links = align(model.task, model.tokenizer, ${JSON.stringify(app.state.text)}, ${JSON.stringify(app.run.predictions.text)})`) : [await codeOf(app.run)]),
  generate: async ({ run, output }) => [output ? (await api.json(`generations/${output.generation}/python`)).code : await codeOf(run)],
  lab: (app) => (app.before ? apart(app, app.before, app.run) : viewed(app)),
  compare: async (app) => apart(app, app.run, await rivalRun(app)),
};

/** @returns {Promise<string>} */
export const python = async (app) => `${(await (PAGES[app.state.page] ?? viewed)(app)).join("\n")}\n`;
