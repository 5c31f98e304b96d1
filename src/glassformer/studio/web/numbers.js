// How is this weight computed? The lecture's steps with this model's numbers.

import * as api from "./api.js";
import { action, el, number, share, swap, table, valued, visible } from "./dom.js";
import { drawFormula, nameOf } from "./formulas.js";
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

/** What a step shows beside its vectors, by its name. */
const SHOWN = {
  qkv: (n, at) => [...rows(n, ["x", "q"]), keyed("k", n.k, at), keyed("v", n.v, at)],
  scores: (n, at) => [
    ...rows(n, ["q"]), vector(`k_${at.best}`, at.name(at.best), { ...n.k, values: n.k.values[at.best] }),
    vector(`q ⊙ k_${at.best}`, "", { length: n.width, values: n.vectors.q.values.map((q, d) => q * n.k.values[at.best][d]) }),
    worked(`q · k = ${number(n.scores[at.best])}`, n.width > n.vectors.q.values.length ? `all ${n.width} products added` : "the products added"),
    scoreTable(n, at, "score")],
  scaled: (n, at) => [
    n.scale === 1 ? null : worked(`${number(n.scores[at.best])} ÷ ${number(n.scale)} = ${number(n.scaled[at.best])}`, `√d = √${n.width}, for “${at.name(at.best)}”`),
    scoreTable(n, at, "scaled")],
  masked: (n, at) => [
    worked(`${n.masked.filter((each) => each === null).length} of ${n.masked.length} hidden`, n.masked.includes(null) ? "later tokens, or those too far away" : "this token may look everywhere"),
    scoreTable(n, at, "masked")],
  weights: (n, at) => [
    worked(`${share(n.weights[at.best])} on “${at.name(at.best)}”`, `the sum of all ${n.weights.length} is ${number(n.weights.reduce((a, b) => a + b, 0))}`),
    scoreTable(n, at, "weight")],
  mixed: (n, at) => [
    ...at.strongest.slice(0, SUMMED).map((j) => vector(`${share(n.weights[j])} v_${j}`, at.name(j),
      { length: n.v.length, values: n.v.values[j].map((v) => v * n.weights[j]), most: largest(n.vectors.z.values) })),
    n.weights.length > SUMMED ? worked("+ …", `${n.weights.length - SUMMED} more`) : null, ...rows(n, ["z"], "z")],
};

/** Vectors by their names in the formulas; `result` stands out. */
const rows = (n, names, result = "q") => names.map((name) => vector(name, n.names[name], n.vectors[name], name === result));

function build(app) {
  const tools = el("div", { class: "tools" });
  const tokens = el("div", { class: "card flat" });
  const list = el("ol", { class: "steps", "aria-label": "Steps" });
  const step = el("section", { class: "card step", "aria-label": "This step" });
  const node = el("div", { class: "page-numbers" }, tools, tokens, el("nav", { class: "card", "aria-label": "All steps" }, list), step);

  async function show() {
    const { state, run } = app;
    const fresh = app.fresh();
    const { stack, layer, head, query } = state;
    const [asking, asked] = sides(run, stack);
    swap(tools, ...whichHead(app));
    swap(tokens, strip("The token that looks", asking, query, (to) => app.update({ query: to })));
    intoSight(tokens.querySelector(".strip"));
    const all = await walked(run, [stack, layer, head], query);
    if (!fresh()) return;
    state.step = Math.max(0, Math.min(all.steps.length - 1, state.step));
    const at = ordered(all, asked);
    swap(list, ...all.steps.map((each, i) => el("li", {}, el("button", {
      type: "button", title: each.text, "aria-current": i === state.step ? "step" : null, on: { click: () => app.update({ step: i }) },
    }, el("span", { class: "name", text: each.title }), preview(each, all, at)))));
    intoSight(list);
    swap(step, ...detail(app, all, at));
    app.say(`step ${state.step + 1} of ${all.steps.length}: ${all.steps[state.step].title}`);
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

function detail(app, all, at) {
  const { step } = app.state;
  const { name, title, text, formulas, shows } = all.steps[step];
  const turn = (by, label) => action(label, all.steps[step + by] !== undefined, () => app.update({ step: step + by }), { class: by > 0 ? "main" : "plain" });
  const shown = SHOWN[name]?.(all, at) ?? rows(all, shows, shows.at(-1));
  return [
    el("div", { class: "step-head" },
      el("h2", {}, el("span", { class: "count", text: step + 1 }), title),
      el("div", { class: "buttons" }, turn(-1, "Back"), turn(1, "Next"))),
    el("p", { text }),
    el("div", { class: "formula" }, ...formulas.map((formula) => drawFormula(formula, text))),
    el("div", { class: "scroll shown", tabindex: "0", role: "group", "aria-label": "Numbers of this step" }, ...shown.filter(Boolean)),
  ];
}

const largest = (values) => Math.max(...values.map(Math.abs), 1e-9);

/** The first entries of a vector, coloured by sign and size; `most` is where colours end. */
function cells({ values, most = largest(values) }) {
  return values.map((value) => el("span", {
    class: value < 0 ? "cell minus" : "cell", vars: { p: (Math.abs(value) / most).toFixed(3) }, "data-value": value, text: number(value),
  }));
}

function vector(name, what, of, result = false) {
  const rest = of.length - of.values.length;
  const full = `${name.replace("_", " ")} ${what}`.trim();
  return el("div", { class: result ? "vector result" : "vector", role: "group", "aria-label": `${full}, ${of.length} numbers` },
    el("span", { class: "name", title: full }, nameOf(name), what ? el("span", { class: "quiet", text: ` ${what}` }) : null), ...cells(of),
    el("span", { class: "quiet rest", text: rest > 0 ? `… ${of.length}` : "" }));
}

function worked(sum, note) {
  return el("p", { class: "worked" }, el("b", { text: sum }), el("span", { class: "quiet", text: note }));
}

function keyed(name, of, at) {
  const most = largest(at.shown.flatMap((j) => of.values[j]));
  return el("div", { class: "keyed" }, el("h3", {}, name, el("span", { class: "quiet", text: more(at) })),
    ...at.shown.map((j) => vector(`${name}_${j}`, at.name(j), { ...of, most, values: of.values[j] })));
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

/** A step's result, small: a number of the strongest key, or a vector. */
function preview({ name, shows }, all, at) {
  const numbers = { scores: all.scores, scaled: all.scaled, masked: all.masked, weights: all.weights }[name];
  if (numbers) return el("span", { class: "quiet", text: name === "weights" ? share(numbers[at.best]) : number(numbers[at.best]) });
  const { values } = all.vectors[shows.at(-1)];
  const most = largest(values);
  return el("span", { class: "strip-of", "aria-hidden": "true" }, ...values.map((value) =>
    el("i", { class: value < 0 ? "minus" : "", vars: { p: (Math.abs(value) / most).toFixed(3) } })));
}
