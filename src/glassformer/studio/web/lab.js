// Interventions: change words, heads and vectors, and run again.

import * as api from "./api.js";
import { words } from "./colour.js";
import { action, el, share, swap, visible } from "./dom.js";
import { everyHead, headName, movers, stepper, whichHead } from "./head.js";
import { matrix } from "./matrix.js";
import { predictions } from "./predictions.js";
import { changeOf, diverging, signed, signedLegend } from "./signed.js";
import { sweeper } from "./sweep.js";
import { groups, intoSight, sides, strip } from "./tokens.js";

export const lab = {
  id: "lab",
  name: "Lab",
  question: "What if?",
  lead: "Mask a word, put another in its place, switch heads off, or bring in what the model thought of another sentence: see what becomes of the answer.",
  caveat: "A change that matters shows where the answer passes, not all that it needs: try the opposite change too.",
  build, along, needs: ({ run, before, state: { stack, layer, head } }) => before && difference(before, run, [stack, layer, head]),
};

export const NONE = { off: [], units: [], swaps: [], patches: [] };

/** The interventions of a state. */
export const changesOf = ({ off, units, swaps, patches, donor }) => ({ off, units, swaps, patches, ...(patches.length && { donor }) });

/** The checkpoint for a request: less than 0 is the model itself. */
export const atStep = (step) => (step < 0 ? {} : { step });

/** The changes besides heads, for a request. */
export function changed({ units, swaps, patches, donor }) {
  const parts = (each, count) => each.split(".", count);
  return {
    ...unitsOff({ units }),
    ...(swaps.length && { swaps: swaps.map((each) => { const [side, place] = parts(each, 2); return [side, Number(place), wordOf(each)]; }) }),
    ...(patches.length && { patches: patches.map((each) => { const [side, ...places] = parts(each, 4); return [side, ...places.map(Number)]; }), other: donor }),
  };
}

/** The units that are off, for a request. */
export const unitsOff = ({ units }) => (units.length ? { units: units.map((each) => each.split(".")).map(([side, ...places]) => [side, ...places.map(Number)]) } : {});

/** The word of encoder.5.river; URL-encoded. */
function wordOf(swap) {
  const text = swap.slice(swap.indexOf(".", swap.indexOf(".") + 1) + 1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // written by hand
  }
}

function build(app) {
  const left = el("section", { class: "card change", "aria-label": "Change something" });
  const tools = el("div", { class: "tools" });
  const cells = matrix({ name: "Difference of weights: rows look, columns are looked at", pick: (row) => app.update({ query: row }), say: signed });
  const readout = el("p", { class: "quiet", text: "Point at a cell to read it." });
  const scale = el("div", {});
  const moved = el("div", { class: "moved" });
  const fit = el("div", { class: "fit" }, cells.node);
  const still = el("p", { class: "quiet still", hidden: true });
  const early = el("p", { class: "quiet early", role: "note", hidden: true });
  const centre = el("section", { class: "card cells", "aria-label": "What changes in the picture" }, tools, still, early, fit, el("div", { class: "foot" }, readout, scale), moved);
  const sweep = sweeper(app, centre);
  const right = el("div", { class: "right" });
  const fixed = el("section", { class: "card none" }, el("h2", { text: "Nothing can be changed here" }),
    el("p", { text: "A trace holds one run as it was. Open its model in the studio." }));
  const node = el("div", { class: "page-lab" }, fixed, left, centre, right);
  const shown = { rows: [], columns: [], bytes: new Uint8Array() };
  const time = { past: [], future: [], now: null, text: null };

  app.undo = () => travel(time.past, time.future);
  app.redo = () => travel(time.future, time.past);

  function travel(from, to) {
    if (!from.length) return;
    to.push(time.now);
    time.now = from.pop();
    app.update(JSON.parse(time.now));
  }

  /** Changes from elsewhere (another page, the address) can be undone, too. */
  function remember(state) {
    const now = JSON.stringify(changesOf(state));
    const text = [state.model, state.text, state.second].join("\n");
    if (text !== time.text) Object.assign(time, { text, past: now === JSON.stringify(NONE) ? [] : [JSON.stringify(NONE)], future: [], now });
    if (now === time.now) return;
    time.past.push(time.now);
    Object.assign(time, { now, future: [] });
  }

  async function show() {
    const { state, run, before, model } = app;
    const fresh = app.fresh();
    fixed.hidden = model.kind !== "trace";
    for (const part of [left, centre, right]) part.hidden = !fixed.hidden;
    if (!fixed.hidden) { app.say("nothing can be changed"); return; }
    remember(state);
    const other = state.donor ? await api.run(model.id, state.donor, "", [], app.saved()).catch((error) => error) : null;
    if (!fresh()) return;
    swap(left, ...controls(app, other));
    sweep.node.remove();
    if (other && !(other instanceof Error) && model.predicts_tokens && answerAt(app) >= 0) {
      left.append(el("div", { class: "buttons" }, sweep.button));
      await sweep.show(before ?? run, other, sideOf(state), answerAt(app), fresh);
      if (!fresh()) return;
    }
    swap(tools, ...whichHead(app));
    const python = await pythonOf(run);
    if (!fresh()) return;
    swap(right, ...answers(app), history(app, time), code(python.code));
    intoSight(right.querySelector(".flat .strip"));
    await picture(app, fresh);
    if (fresh()) app.say(before ? spoken(app) : "nothing is changed");
  }

  async function picture({ state, run, before, theme }, fresh) {
    const { stack, layer, head } = state;
    const parts = before ? await Promise.all([
      difference(before, run, [stack, layer, head]),
      moves(before, run, stack),
    ]).catch((error) => { if (error.status !== 400) throw error; return error; }) : null;
    if (!fresh()) return;
    still.hidden = Array.isArray(parts);
    [fit.hidden, moved.hidden, readout.hidden, early.hidden] = [!still.hidden, !still.hidden, !still.hidden, true];
    swap(scale, signedLegend(theme(), "change of weight"));
    if (!Array.isArray(parts)) {
      still.textContent = parts ? parts.message : "Nothing is changed yet. Here you will see where this head attends more, and where less.";
      return;
    }
    early.hidden = reached(state, stack, layer);
    early.textContent = `${headName(layer, head)} is computed before what was changed: its weights cannot differ. Choose a later layer.`;
    const [{ bytes }, { moved: by }] = parts;
    [shown.rows, shown.columns] = sides(run, stack).map((tokens) => groups(tokens, { special: true, pieces: true }));
    shown.bytes = bytes;
    swap(moved, ...movers(app, "moved most:", by));
    cells.show({ ...shown, chosen: state.query, zoom: 0, palette: words(diverging(theme())), value: changeOf });
    cells.view.canvas.dataset.drawn = [run.run, before.run, stack, layer, head, theme()].join();
  }

  return { node, show };
}

export const pythonOf = ({ run }) => api.json(`runs/${run}/python`);

/** The difference of a head's weights in two runs. */
export const difference = (one, other, at) => api.bytes(`difference/${one.run}/${other.run}/head/${at.join("/")}`);

/** How much of each head's attention has moved. */
export const moves = (one, other, stack) => api.json(`difference/${one.run}/${other.run}/changes/${stack}`);

function* along(app) {
  const { run, before } = app;
  yield () => pythonOf(run);
  if (!before) return;
  for (const { name } of run.stacks) yield () => moves(before, run, name);
  for (const at of everyHead(app)) yield () => difference(before, run, at);
}

/** The side whose words can be changed: of cross-attention, the queries'. */
const sideOf = ({ stack }) => (stack === "encoder" ? "encoder" : "decoder");

/** The token where the answer is read: the chosen one, else where the model predicts last. */
function answerAt({ run, state }) {
  const places = run.predictions.at.map(({ token }) => token);
  return places.includes(state.answer) ? state.answer : places.at(-1) ?? -1;
}

/** The answer, and where it is read: that need not be where something is changed. */
function answers(app) {
  const { run, before, model } = app;
  const token = answerAt(app);
  const tokens = run.tokens.queries.decoder ?? run.tokens.queries.encoder;
  const several = run.predictions.at.length > 1 && run.predictions.kind !== "masked";
  return [
    several ? el("section", { class: "card flat", "aria-label": "Where the answer is read" }, el("h3", { text: "Read the answer at" }),
      strip("Where the answer is read", tokens, token, (answer) => app.update({ answer }))) : null,
    predictions(run, before, token, model),
  ].filter(Boolean);
}

const IN_BLOCK = { encoder: 0, decoder: 0, cross: 0.5 }; // when it is computed

/** Whether a head's weights can change at all: an intervention reaches only what is computed after it. */
function reached({ off, units, swaps, patches }, stack, layer) {
  const parts = (each) => each.split(".");
  const changes = [
    ...swaps.map((each) => [parts(each)[0], -0.1]),
    ...off.map(parts).map(([from, at]) => [from, Number(at) + IN_BLOCK[from] + 0.1]),
    ...[...units, ...patches].map(parts).map(([side, at]) => [side, Number(at) + 0.9]),
  ];
  const here = layer + IN_BLOCK[stack];
  const passed = (side, after) => (side === "encoder" && stack !== "encoder" ? 0.1 : after); // into the decoder by its first cross-attention
  return changes.some(([side, after]) => here > passed(side, after) && (side === "encoder" || stack !== "encoder"));
}

function spoken({ run, before, state }) {
  const token = answerAt({ run, state });
  const [now, then] = [run, before].map(({ predictions: { at } }) => at.find((each) => each.token === token)?.top[0]);
  return now && then ? `before “${visible(then.text)}” ${share(then.p)}, now “${visible(now.text)}” ${share(now.p)}` : "changed";
}

/** The words of the sentence, and what can be done with the chosen one. */
function controls(app, other) {
  const { state, run, model } = app;
  const side = sideOf(state);
  const tokens = run.tokens.queries[side];
  const { query } = state;
  const marks = Object.fromEntries([
    ...state.swaps.filter((each) => each.startsWith(`${side}.`)).map((each) => [each.split(".")[1], "asked"]),
    ...state.patches.filter((each) => each.startsWith(`${side}.`)).map((each) => [each.split(".")[2], "asked"])]);
  const exchange = (word) => { // reads the state of the click: the form stays while the choice of token changes
    const place = `${sideOf(app.state)}.${app.state.query}.`;
    app.update({ swaps: [...app.state.swaps.filter((each) => !each.startsWith(place)), place + encodeURIComponent(word)] });
  };
  const word = el("input", { type: "text", name: "word", "aria-label": "Another word", placeholder: "a word", spellcheck: "false", asks: true });
  const name = visible(tokens[query]?.text ?? "");
  return [
    el("h2", { text: "The sentence" }), strip(`Tokens of the ${side}`, tokens, query, (to) => app.update({ query: to }), marks),
    el("h3", { text: `“${name}”` }),
    el("form", { class: "inline", on: { submit: (event) => { event.preventDefault(); if (word.value.trim()) exchange(word.value.trim()); } } },
      el("button", { type: "button", class: "plain", "data-do": "mask", text: "Mask it", asks: true, disabled: !model.mask, title: model.mask ? null : "This model knows no mask: put another word there", on: { click: () => exchange(model.mask) } }),
      word, el("button", { class: "plain", text: "Swap", asks: true })),
    el("h3", { text: `Layer ${state.layer}, head ${state.head}` }),
    el("div", { class: "buttons" }, el("button", { type: "button", class: "plain", "aria-pressed": String(app.isOff(state)), text: app.isOff(state) ? "Switch on" : "Switch off", asks: true, on: { click: () => app.toggle() } })),
    el("h3", { text: "From another sentence" }),
    ...patching(app, side, name, other),
  ];
}

function patching(app, side, name, other) {
  const { state, model, run } = app;
  const box = el("input", { type: "text", name: "donor", value: state.donor, "aria-label": "Another sentence", placeholder: model.samples[1]?.text ?? "another sentence", spellcheck: "false", asks: true });
  const form = el("form", { class: "inline", on: { submit: (event) => { event.preventDefault(); app.update({ donor: box.value.trim() || box.placeholder, mate: -1, patches: [] }); } } },
    box, el("button", { class: "plain", text: "Read", asks: true }));
  if (other instanceof Error) return [form, el("p", { class: "quiet", text: other.message })];
  if (!other) return [form, el("p", { class: "quiet", text: "Its vectors can take the place of this sentence's, token by token." })];
  const theirs = other.tokens.queries[side];
  const mate = Math.min(theirs.length - 1, state.mate < 0 ? theirs.findIndex(({ special }) => !special) : state.mate);
  state.mate = mate;
  const last = run.stacks.find(({ name: stack }) => stack === side).layers - 1;
  const into = Math.min(last, state.into);
  const patch = () => {
    const { state: now } = app;
    const place = `${side}.${into}.${now.query}.`;
    app.update({ patches: [...now.patches.filter((each) => !each.startsWith(place)), `${place}${now.mate}`], layer: Math.max(now.layer, Math.min(last, into + 1)) });
  };
  return [form,
    strip("Tokens of the other sentence", theirs, mate, (to) => app.update({ mate: to })),
    stepper("after layer", into, last, (to) => app.update({ into: to })),
    el("div", { class: "buttons" }, el("button", { type: "button", class: "plain", "data-do": "patch", asks: true,
      text: `Patch: “${visible(theirs[mate].text)}” in place of “${name}”`, title: "Activation patching: the other sentence's vector takes the place of this one's", on: { click: patch } }))];
}

/** The list of changes, each with a button to undo it. */
function history(app, time) {
  const { state, before } = app;
  const drop = (kind, each) => app.update({ [kind]: state[kind].filter((other) => other !== each) });
  const sentences = {
    off: ([stack, layer, head]) => `${stack}: layer ${layer}, head ${head} is off`,
    units: ([side, layer, unit]) => `${side}: unit ${unit} of layer ${layer} is off`,
    swaps: ([side, place], each) => `token ${place} of the ${side} is “${wordOf(each)}”`,
    patches: ([side, layer, token, mate]) => `${side}: after layer ${layer}, token ${token} is the other sentence’s ${mate}`,
  };
  const rows = Object.entries(sentences).flatMap(([kind, tell]) => state[kind].map((each) => el("li", {},
    el("span", { text: tell(each.split("."), each) }),
    el("button", { type: "button", class: "drop", asks: true, "aria-label": `remove: ${tell(each.split("."), each)}`, text: "×", on: { click: () => drop(kind, each) } }))));
  const button = (text, act, able) => action(text, able, act, { class: "plain", asks: true });
  return el("section", { class: "card changes", "aria-label": "Changes" },
    el("div", { class: "step-head" }, el("h2", { text: before ? "Changes" : "No changes yet" }), el("div", { class: "buttons small" }, button("Undo", app.undo, time.past.length > 0), button("Redo", app.redo, time.future.length > 0),
      button("Reset", () => app.update(NONE), before !== null))),
    rows.length ? el("ul", {}, ...rows) : null);
}

function code(text) {
  return el("section", { class: "card python", "aria-label": "The same in Python" },
    el("h2", { text: "The same in Python" }), el("pre", { class: "code", tabindex: "0", "aria-label": "Python", text }));
}
