// How is this weight computed? The lecture's steps with this model's numbers.

import * as api from "./api.js";
import { band, largest } from "./bands.js";
import { action, el, exact, number, share, swap, table, valued, visible } from "./dom.js";
import { drawFormula, nameOf } from "./formulas.js";
import { everyHead, stepper, whichHead } from "./head.js";
import { asksOf, figure, matricesOf } from "./product.js";
import { intoSight, sides, strip } from "./tokens.js";

const KEYS_SHOWN = 16;
const SUMMED = 5; // values shown in the weighted sum
const PREVIEWED = 8; // entries beside a step's name
const LAST = 2 ** 20; // of entries: more than any vector or matrix has

export const numbers = {
  id: "numbers",
  name: "Numbers",
  question: "How is this weight computed?",
  lead: "One token, step by step. A vector is a strip with a cell for each number: click one to read that entry of all of them.",
  caveat: "Colours are square roots, each strip on its own scale: read the numbers before you compare.",
  build, along, needs: ({ run, state: { stack, layer, head, query } }) => walked(run, [stack, layer, head], query),
};

/** What a step shows beside its vectors, by its name. */
const SHOWN = {
  qkv: (n, at) => [...rows(n, at, ["x", "q"]), keyed("k", n.k, at), keyed("v", n.v, at)],
  scores: (n, at) => [
    ...rows(n, at, ["q"]), at.vector(`k_${at.best}`, at.name(at.best), n.k[at.best]),
    at.vector(`q ⊙ k_${at.best}`, "", n.vectors.q.map((q, d) => q * n.k[at.best][d])),
    worked(`q · k = ${number(n.scores[at.best])}`, `all ${n.width} products added`),
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
    ...at.strongest.slice(0, SUMMED).map((j) => at.vector(`${share(n.weights[j])} v_${j}`, at.name(j),
      n.v[j].map((v) => v * n.weights[j]), { most: largest(n.vectors.z) })),
    n.weights.length > SUMMED ? worked("+ …", `${n.weights.length - SUMMED} more`) : null, ...rows(n, at, ["z"], "z")],
};

/** Vectors by their names in the formulas; `result` stands out. */
const rows = (n, at, names, result = "q") => names.map((name) => at.vector(name, n.names[name], n.vectors[name], { result: name === result }));

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
    const at = { ...ordered(all, asked), ...drawing(app, step) };
    const matrices = matricesOf(all.steps[state.step].formulas);
    const matrix = matrices.includes(state.matrix) ? state.matrix : matrices[0];
    const ask = () => asksOf(run, [stack, layer, head], query, matrix, state.entry);
    const multiplied = matrix && api.holds(ask) ? await Promise.all(ask()) : null;
    if (!fresh()) return;
    swap(list, ...all.steps.map((each, i) => el("li", {}, el("button", {
      type: "button", title: each.text, "aria-current": i === state.step ? "step" : null, on: { click: () => app.update({ step: i }) },
    }, el("span", { class: "name", text: each.title }), preview(each, all, at)))));
    intoSight(list);
    const shown = [...detail(app, all, at), multiplied ? figure(app, at, matrices, matrix, multiplied, asked) : null];
    swap(step, ...shown.slice(0, 3), el("div", { class: "scroll shown", tabindex: "0", role: "group", "aria-label": "Numbers of this step" }, ...shown.slice(3).filter(Boolean)));
    app.say(`step ${state.step + 1} of ${all.steps.length}: ${all.steps[state.step].title}`);
  }

  return { node, show };
}

const walked = ({ run }, at, query) => api.json(`runs/${run}/numbers/${at.join("/")}/${query}`);

/** The chosen head and token first, with their matrices. */
function* along(app) {
  const { run, state: { stack, layer, head, query, entry } } = app;
  yield async () => {
    const { steps } = await walked(run, [stack, layer, head], query);
    const names = steps.flatMap(({ formulas }) => matricesOf(formulas));
    await Promise.all(names.flatMap((name) => asksOf(run, [stack, layer, head], query, name, entry)));
  };
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
  const shown = SHOWN[name]?.(all, at) ?? rows(all, at, shows, shows.at(-1));
  return [
    el("div", { class: "step-head" },
      el("h2", {}, el("span", { class: "count", text: step + 1 }), title),
      el("div", { class: "buttons" }, stepper("entry", app.state.entry, LAST, (entry) => app.update({ entry })), turn(-1, "Back"), turn(1, "Next"))),
    el("p", { text }),
    el("div", { class: "formula" }, ...formulas.map((formula) => drawFormula(formula, text))),
    ...shown,
  ];
}

/** How vectors are drawn in this room: `vector` makes a strip with its name and the chosen entry. */
function drawing(app, step) {
  const { state: { entry } } = app;
  const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const beside = matchMedia("(min-width: 960px)").matches;
  const room = Math.max(120, step.clientWidth - (beside ? 19 : 7.5) * em);
  const pick = (to) => app.update({ entry: to });
  const vector = (name, what, values, { most, result = false } = {}) => {
    const full = `${name.replace("_", " ")} ${what}`.trim();
    return el("div", { class: result ? "vector result" : "vector", role: "group", "aria-label": `${full}, ${values.length} numbers` },
      el("span", { class: "name", title: full }, nameOf(name), what ? el("span", { class: "quiet", text: ` ${what}` }) : null),
      band({ name: full, values, most, room, theme: app.theme(), entry, pick }),
      el("span", { class: "at", title: entry < values.length ? `entry ${entry} of ${values.length}` : `${values.length} entries` }, entry < values.length ? exact(values[entry]) : "–"));
  };
  return { vector, room, pick };
}

function worked(sum, note) {
  return el("p", { class: "worked" }, el("b", { text: sum }), el("span", { class: "quiet", text: note }));
}

function keyed(name, of, at) {
  const most = largest(at.shown.flatMap((j) => of[j]));
  return el("div", { class: "keyed" }, el("h3", {}, name, el("span", { class: "quiet", text: more(at) })),
    ...at.shown.map((j) => at.vector(`${name}_${j}`, at.name(j), of[j], { most })));
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
  const values = all.vectors[shows.at(-1)].slice(0, PREVIEWED);
  const most = largest(values);
  return el("span", { class: "strip-of", "aria-hidden": "true" }, ...values.map((value) =>
    el("i", { class: value < 0 ? "minus" : "", vars: { p: (Math.abs(value) / most).toFixed(3) } })));
}
