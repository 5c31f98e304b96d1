// How is this weight computed? The lecture's steps with this model's numbers.

import * as api from "./api.js";
import { el, number, share, swap, table, valued, visible } from "./dom.js";
import { formula } from "./formulas.js";
import { everyHead, whichHead } from "./head.js";
import { intoSight, sides, strip } from "./tokens.js";

const KEYS_SHOWN = 16;
const SUMMED = 5; // values shown in the weighted sum

export const numbers = {
  id: "numbers",
  name: "Numbers",
  question: "How is this weight computed?",
  lead: "One token at a time, from its embedding to the end of the block. Every number is the model's own.",
  caveat: "Long vectors show their first entries; sums and products are made of all of them.",
  build, along, needs: ({ run, state: { stack, layer, head, query } }) => walked(run, [stack, layer, head], query),
};

/** [name, title, in words, what is shown] */
const STEPS = [
  ["input", "Token + position", "A token becomes a vector: its own embedding and that of its place are added.", (n) => [
    vector("token", n.embedding), n.segment && vector("+ segment", n.segment), n.position && vector("+ position", n.position),
    vector("into the layer", n.before), vector("x", n.x, true)]],
  ["qkv", "Query, keys, values", "Three linear maps: what this token looks for, what each token offers, and what it brings.", (n, at) => [
    vector("x", n.x), vector("q", n.q, true), keyed("k", n.k, at), keyed("v", n.v, at)]],
  ["scores", "Scores", "The query is multiplied with every key and summed up: how well do they fit?", (n, at) => [
    vector("q", n.q), vector(`k of “${at.name(at.best)}”`, { ...n.k, values: n.k.values[at.best] }),
    vector("q × k", { length: n.q.length, values: n.q.values.map((q, d) => q * n.k.values[at.best][d]) }),
    worked(`q · k = ${number(n.scores[at.best])}`, n.q.length > n.q.values.length ? `all ${n.q.length} products added` : "the products added"),
    scoreTable(n, at, "score")]],
  ["scaled", "Divide by √d", "Scores grow with the width of a head; divided by √d they stay in a range where softmax can learn.", (n, at) => [
    worked(`${number(n.scores[at.best])} ÷ ${number(n.scale)} = ${number(n.scaled[at.best])}`, `√d = ${number(n.scale)}, for “${at.name(at.best)}”`),
    scoreTable(n, at, "scaled")]],
  ["masked", "Mask", "Where the token may not look the score becomes −∞, so that nothing is left after the softmax.", (n, at) => [
    worked(`${n.masked.filter((each) => each === null).length} of ${n.masked.length} hidden`, n.masked.includes(null) ? "later tokens, or those too far away" : "this token may look everywhere"),
    scoreTable(n, at, "masked")]],
  ["weights", "Softmax", "All scores become positive and sum to one: these are the weights.", (n, at) => [
    worked(`${share(n.weights[at.best])} on “${at.name(at.best)}”`, `the sum of all ${n.weights.length} is ${number(n.weights.reduce((a, b) => a + b, 0))}`),
    scoreTable(n, at, "weight")]],
  ["mixed", "Weighted sum", "The head takes home the values, each in the measure of its weight.", (n, at) => [
    ...at.strongest.slice(0, SUMMED).map((j) => vector(`${share(n.weights[j])} × v of “${at.name(j)}”`,
      { length: n.v.length, values: n.v.values[j].map((v) => v * n.weights[j]), most: largest(n.mixed.values) })),
    n.weights.length > SUMMED ? worked("+ …", `${n.weights.length - SUMMED} more`) : null, vector("z", n.mixed, true)]],
  ["out", "Output projection", "What all heads brought stands side by side; one more linear map leads back to the model's width.", (n) => [
    vector("z of this head", n.mixed), vector("o", n.out, true)]],
  ["residual", "Residual", "It is added to what came in: a layer only has to say what changes.", (n) => [
    vector("came in", n.before), vector("+ o", n.out), vector("r", n.residual, true)]],
  ["norm", "Layer norm", "Mean and spread of the entries are set right, so that layers stack.", (n) => [
    vector("r", n.residual), vector("n", n.norm, true)]],
  ["mlp", "MLP", "Two linear maps with a bend between them, the same for every token; then added once more.", (n) => [
    vector("n", n.norm), vector("MLP", n.mlp), vector("leaves the block", n.block, true)]],
];

const RESULT = { input: "x", qkv: "q", mixed: "mixed", out: "out", residual: "residual", norm: "norm", mlp: "block" };

function build(app) {
  const tools = el("div", { class: "tools" });
  const tokens = el("div", { class: "card flat" });
  const list = el("ol", { class: "steps", "aria-label": "Steps" });
  const step = el("section", { class: "card step", "aria-label": "This step" });
  const node = el("div", { class: "page-numbers" }, tools, tokens, el("nav", { class: "card", "aria-label": "All steps" }, list), step);

  async function show() {
    const { state, run } = app;
    const fresh = app.fresh();
    state.step = Math.max(0, Math.min(STEPS.length - 1, state.step));
    const { stack, layer, head, query } = state;
    const [asking, asked] = sides(run, stack);
    swap(tools, ...whichHead(app));
    swap(tokens, strip("The token that looks", asking, query, (to) => app.update({ query: to })));
    intoSight(tokens.querySelector(".strip"));
    const steps = await walked(run, [stack, layer, head], query);
    if (!fresh()) return;
    const at = ordered(steps, asked);
    swap(list, ...STEPS.map(([name, title], i) => el("li", {}, el("button", {
      type: "button", "aria-current": i === state.step ? "step" : null, on: { click: () => app.update({ step: i }) },
    }, el("span", { class: "name", text: title }), preview(name, steps, at)))));
    intoSight(list);
    swap(step, ...detail(app, steps, at, stack === "cross"));
    app.say(`step ${state.step + 1} of ${STEPS.length}: ${STEPS[state.step][1]}`);
  }

  return { node, show };
}

const walked = ({ run }, at, query) => api.json(`runs/${run}/numbers/${at.join("/")}/${query}`);

/** The chosen head first. */
function* along(app) {
  const { run, state: { stack, layer, head } } = app;
  for (const at of [[stack, layer, head], ...everyHead(app)]) for (const query of sides(run, at[0])[0].keys()) yield () => walked(run, at, query);
}

/** The keys, strongest first, and the few that are shown, in the order of the text. */
function ordered(steps, asked) {
  const strongest = steps.weights.map((_, j) => j).sort((a, b) => steps.weights[b] - steps.weights[a]);
  return {
    strongest, best: strongest[0], all: steps.weights.length,
    shown: strongest.slice(0, KEYS_SHOWN).sort((a, b) => a - b),
    name: (j) => visible(asked[j].text),
  };
}

function detail(app, steps, at, cross) {
  const { step } = app.state;
  const [name, title, inWords, shown] = STEPS[step];
  const result = { qkv: "q", input: "x" }[name] ?? name;
  const here = steps.formulas[result];
  const turn = (by, text) => el("button", {
    type: "button", class: by > 0 ? "main" : "plain", text, disabled: !STEPS[step + by], on: { click: () => app.update({ step: step + by }) },
  });
  return [
    el("div", { class: "step-head" },
      el("h2", {}, el("span", { class: "count", text: step + 1 }), title),
      el("div", { class: "buttons" }, turn(-1, "Back"), turn(1, "Next"))),
    el("p", { text: inWords }),
    el("div", { class: "formula" }, formula(name, inWords, cross),
      here ? el("p", { class: "quiet", text: `in this model: ${result} = ${here}` }) : null),
    el("div", { class: "scroll shown", tabindex: "0", role: "group", "aria-label": "Numbers of this step" }, ...shown(steps, at).filter(Boolean)),
  ];
}

const largest = (values) => Math.max(...values.map(Math.abs), 1e-9);

/** The first entries of a vector, coloured by sign and size; `most` is where colours end. */
function cells({ values, most = largest(values) }) {
  return values.map((value) => el("span", {
    class: value < 0 ? "cell minus" : "cell", vars: { p: (Math.abs(value) / most).toFixed(3) }, "data-value": value, text: number(value),
  }));
}

function vector(name, of, result = false) {
  const rest = of.length - of.values.length;
  return el("div", { class: result ? "vector result" : "vector", role: "group", "aria-label": `${name}, ${of.length} numbers` },
    el("span", { class: "name", text: name }), ...cells(of),
    el("span", { class: "quiet rest", text: rest > 0 ? `… ${of.length}` : "" }));
}

function worked(sum, note) {
  return el("p", { class: "worked" }, el("b", { text: sum }), el("span", { class: "quiet", text: note }));
}

function keyed(name, of, at) {
  const most = largest(at.shown.flatMap((j) => of.values[j]));
  return el("div", { class: "keyed" }, el("h3", {}, name, el("span", { class: "quiet", text: more(at) })),
    ...at.shown.map((j) => vector(at.name(j), { ...of, most, values: of.values[j] })));
}

const more = (at) => (at.all > at.shown.length ? ` ${at.shown.length} of ${at.all}: those with the most weight` : "");

/** Scores on their way to weights; the column of this step stands out. */
function scoreTable(steps, at, now) {
  const heads = ["key", "score", "scaled", ...(steps.bias ? ["bias"] : []), "masked", "weight"];
  const until = heads.indexOf(now);
  const cell = (column, value, say = number) => valued(value, say, { class: column === now ? "now" : heads.indexOf(column) > until ? "later" : "" });
  const barred = now === "weight";
  const node = table(`From scores to weights${more(at)}`, barred ? [...heads, ""] : heads, at.shown.map((j) => [
    at.name(j), cell("score", steps.scores[j]), cell("scaled", steps.scaled[j]),
    ...(steps.bias ? [cell("bias", steps.bias[j])] : []),
    cell("masked", steps.masked[j]), cell("weight", steps.weights[j], share),
    ...(barred ? [el("span", { class: "bar now", vars: { p: String(steps.weights[j]) } })] : []),
  ]), { class: barred ? "values scores barred" : "values scores" });
  return el("div", {}, node, more(at) ? el("p", { class: "quiet", text: more(at) }) : el("span"));
}

/** A step's result, small. */
function preview(name, steps, at) {
  if (RESULT[name]) {
    const { values } = steps[RESULT[name]];
    const most = largest(values);
    return el("span", { class: "strip-of", "aria-hidden": "true" }, ...values.map((value) =>
      el("i", { class: value < 0 ? "minus" : "", vars: { p: (Math.abs(value) / most).toFixed(3) } })));
  }
  const value = { scores: steps.scores, scaled: steps.scaled, masked: steps.masked, weights: steps.weights }[name][at.best];
  return el("span", { class: "quiet", text: name === "weights" ? share(value) : number(value) });
}
