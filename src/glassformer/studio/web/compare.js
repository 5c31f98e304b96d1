// What changed? Two models, two checkpoints or two sentences, head by head.

import * as api from "./api.js";
import { colours, words } from "./colour.js";
import { el, select, share, swap, table, valued, visible } from "./dom.js";
import { everyHead, movers, weights, whichHead } from "./head.js";
import { atStep, difference, moves } from "./lab.js";
import { matrixCard } from "./matrix.js";
import { legend, rangeOf } from "./picture.js";
import { changeOf, diverging, signed, signedLegend } from "./signed.js";
import { groups, sides } from "./tokens.js";

export const compare = {
  id: "compare",
  name: "Compare",
  question: "What is different?",
  lead: "The same head twice, in two models, two checkpoints or on two sentences; on the right, where the second looks more and where less.",
  caveat: "Heads of two models that were trained apart need not have the same tasks: equal numbers do not make them a pair.",
  build, along,
};

function build(app) {
  const tools = el("div", { class: "tools" });
  const choose = el("form", { class: "tools rival", on: { submit: (event) => {
    event.preventDefault();
    app.update({ other: new FormData(event.target).get("other").trim() });
  } } });
  const pick = (query) => app.update({ query });
  const [first, second, between] = [["The first", "The first: rows look, columns are looked at"], ["The second", "The second: rows look, columns are looked at"], ["The difference", "The second less the first"]]
    .map(([label, name], i) => matrixCard(label, { name, pick, say: i === 2 ? signed : share }));
  const still = el("p", { class: "quiet still", hidden: true });
  between.fit.before(still);
  const list = el("div", { class: "moved" });
  const spoken = el("section", { class: "card row", "aria-label": "Predictions of both" });
  const node = el("div", { class: "page-compare" }, el("div", { class: "tools" }, choose, tools),
    first.node, second.node, between.node,
    el("div", { class: "below" }, list, spoken));

  async function show() {
    const { state, run, theme } = app;
    const fresh = app.fresh();
    swap(choose, ...rivals(app));
    swap(tools, ...whichHead(app));
    const other = await rivalRun(app);
    if (!fresh()) return;
    const { stack, layer, head } = state;
    const theirs = other.stacks.find(({ name }) => name === stack);
    if (!theirs) throw new api.Refused(`The second model has no ${stack}: choose one of the same family.`);
    const [a, b, apart] = await looked(run, other, theirs, [stack, layer, head]);
    if (!fresh()) return;
    const same = Array.isArray(apart); // equal shapes
    first.title.textContent = named(app.model, state.saved, changes(state), state.text);
    second.title.textContent = named(rivalOf(app), state.rivalAt, "", state.other || state.text);
    between.title.textContent = "The difference";
    still.hidden = same;
    [between.fit.hidden, between.foot.hidden, list.hidden] = [!same, !same, !same];
    if (!same) still.textContent = apart.message;
    const whole = { special: true, pieces: true };
    const draw = (part, bytes, of, drawn, how) => {
      const [rows, columns] = sides(of, stack).map((tokens) => groups(tokens, whole));
      part.cells.show({ bytes, rows, columns, chosen: state.query < rows.length ? state.query : -1, zoom: 0, ...how });
      part.cells.view.canvas.dataset.drawn = [...drawn, stack, layer, head, theme()].join();
    };
    const plain = [[first, a], [second, b]].map(([part, { bytes, power }]) => {
      const range = rangeOf(bytes, power);
      swap(part.foot, legend(theme(), state.faint, "0", range.end, "weight"));
      return { palette: words(colours(theme(), state.faint, range)), power };
    });
    swap(between.foot, signedLegend(theme(), "change"));
    swap(spoken, ...bestAnswers(app, run, other)); // before the pictures: it affects their size
    if (same) swap(list, ...movers(app, "differ most:", apart[1].moved));
    draw(first, a.bytes, run, [run.run], plain[0]);
    draw(second, b.bytes, other, [other.run], plain[1]);
    if (same) draw(between, apart[0].bytes, run, [run.run, other.run], { palette: words(diverging(theme())), value: changeOf });
    app.say(same ? `layer ${layer}, head ${head}: ${Math.round(100 * apart[1].moved[layer][head])} % of its attention is elsewhere` : apart.message);
  }

  return { node, show };
}

/** A head of both, and their difference if their shapes are equal. */
function looked(run, other, { layers, heads }, at) {
  const [stack, layer, head] = at;
  return Promise.all([
    weights(run, at),
    weights(other, [stack, Math.min(layer, layers - 1), Math.min(head, heads - 1)]),
    Promise.all([difference(run, other, at), moves(run, other, stack)]).catch((error) => { if (error.status !== 400) throw error; return error; }),
  ]);
}

function* along(app) {
  const { run } = app;
  for (const at of everyHead(app)) {
    yield async () => {
      const other = await rivalRun(app);
      await looked(run, other, other.stacks.find(({ name }) => name === at[0]), at);
    };
  }
}

/** The other models of the same family. */
export const able = ({ models, model }) => models.filter(({ id, family, stacks }) => stacks.length && family === model.family && id !== model.id);

const rivalOf = (app) => able(app).find(({ id }) => id === app.state.rival) ?? app.model;

/** The second run: like the first where nothing else is chosen, without interventions. */
export function rivalRun(app) {
  const { rivalAt, other, text, second } = app.state;
  return api.run(rivalOf(app).id, other || text, other ? "" : second, [], atStep(rivalAt));
}

const named = ({ name }, saved, more, text) => `${name}${saved < 0 ? "" : `, step ${saved}`}${more}: “${text}”`;

/** The interventions, in words. */
function changes({ off, units, swaps, patches }) {
  const counts = [[off, "head", " off"], [units, "unit", " off"], [swaps, "word", " changed"], [patches, "vector", " patched"]];
  return counts.filter(([each]) => each.length).map(([{ length }, what, how]) => `, ${length} ${what}${length > 1 ? "s" : ""}${how}`).join("");
}

/** Choose the second: its model, checkpoint and sentence. */
function rivals(app) {
  const { state, model } = app;
  const chosen = rivalOf(app);
  const steps = (of, at, change, label) => (of.steps?.length ? el("label", { class: "field" }, label,
    select([["-1", "the model"], ...of.steps.map((step) => [String(step), `step ${step}`])], String(at), (to) => change(Number(to)), { asks: true })) : null);
  return [
    steps(model, state.saved, (saved) => app.update({ saved }), "first"),
    el("label", { class: "field" }, "compare with", select([["", "the same model"], ...able(app).map(({ id, name }) => [id, name])], chosen === model ? "" : chosen.id, (rival) => app.update({ rival, rivalAt: -1 }), { asks: true })),
    steps(chosen, state.rivalAt, (rivalAt) => app.update({ rivalAt }), "at"),
    el("label", { class: "field wide" }, "on", el("input", { type: "text", name: "other", value: state.other, placeholder: "the same sentence", "aria-label": "Second sentence", spellcheck: "false", asks: true })),
    el("button", { class: "plain", text: "Compare", asks: true }),
  ];
}

/** Their best answers, side by side: at the chosen token, else at the last. */
function bestAnswers({ state }, run, other) {
  const place = ({ predictions: { at } }) => at.find(({ token }) => token === state.query) ?? at[at.length - 1];
  const [a, b] = [place(run), place(other)];
  if (!a && !b) return [el("p", { class: "quiet", text: "These predict no words: only their attention can be compared." })];
  const best = [0, 1, 2, 3, 4];
  const tell = (guess) => (guess ? [el("b", { text: visible(guess.text) }), valued(guess.p)] : ["", ""]);
  return [table("Best answers of the two", ["", ...best.flatMap((i) => [i + 1, `p of ${i + 1}`])], [[a, "first"], [b, "second"]].map(([answer, name]) =>
    [name, ...best.flatMap((i) => tell(answer?.top[i]))]), { class: "values two" })];
}
