// What activates a neuron? The hidden units of one MLP.

import * as api from "./api.js";
import { action, choice, el, number, swap, table, valued, visible } from "./dom.js";
import { stepper } from "./head.js";
import { predictions } from "./predictions.js";
import { intoSight, strip } from "./tokens.js";

const ROWS = 12; // tokens in the table of one unit
const WHAT = "A unit (neuron) is one entry of the MLP's hidden vector: ";

export const neurons = {
  id: "neurons",
  name: "Neurons",
  question: "What activates a neuron?",
  lead: "The strongest units of a layer's MLP at each token. Choose one: where else in the text does it respond, and what becomes of the answer without it?",
  caveat: "A unit can respond to several unrelated things (polysemantic), and many units can share one: a name for a unit is a guess.",
  build, along,
  needs: ({ run, state: { stack, layer } }) => strongest(run, sideOf(stack), layer),
};

const sideOf = (stack) => (stack === "encoder" ? "encoder" : "decoder");
const strongest = ({ run }, side, layer) => api.json(`runs/${run}/neurons/${side}/${layer}`);
const valuesOf = ({ run }, at) => api.json(`runs/${run}/neurons/${at.replaceAll(".", "/")}`);

/** The chosen unit as side.layer.unit; without a choice in this layer, the strongest at the token. */
function unitOf({ state: { stack, layer, query, unit } }, top) {
  const place = `${sideOf(stack)}.${layer}.`;
  return unit.startsWith(place) ? unit : place + top.strongest[query][0].unit;
}

/** Switches a unit off, or on again. */
export function toggleUnit(app, at = app.unit) {
  if (app.fixed() || !at) return;
  const units = app.state.units.filter((each) => each !== at);
  app.update({ unit: at, units: units.length < app.state.units.length ? units : [...units, at] });
}

/** The next of the strongest units at this token. */
export function nextUnit(app, by) {
  const all = [...document.querySelectorAll(".units [aria-current] .row-of button")];
  const now = all.findIndex((each) => each.getAttribute("aria-pressed") === "true");
  all[Math.max(0, Math.min(all.length - 1, now + by))]?.click();
}

function* along({ run, state }) {
  const sides = Object.keys(run.tokens.queries);
  for (const side of sides) {
    const { layers } = run.stacks.find(({ name }) => name === side);
    const order = Array.from({ length: layers }, (_, i) => i).sort((a, b) => Number(b === state.layer) - Number(a === state.layer));
    for (const layer of order) {
      yield async () => {
        const top = await strongest(run, side, layer);
        const units = new Set(top.strongest.flat().map(({ unit }) => unit));
        await Promise.all([...units].map((unit) => valuesOf(run, `${side}.${layer}.${unit}`)));
      };
    }
  }
}

function build(app) {
  const tools = el("div", { class: "tools" });
  const list = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of units" });
  const left = el("section", { class: "card", "aria-label": "The strongest units" }, el("h2", {}, "Strongest units", el("span", { class: "quiet", text: "by absolute value" })), list);
  const one = el("section", { class: "card one-unit", "aria-label": "The chosen unit" });
  const right = el("div", { class: "right" });
  const mute = el("section", { class: "card none", hidden: true });
  const node = el("div", { class: "page-neurons" }, tools, mute, left, one, right);

  async function show() {
    const { state, run } = app;
    const fresh = app.fresh();
    const side = sideOf(state.stack);
    const tokens = run.tokens.queries[side];
    const { layers } = run.stacks.find(({ name }) => name === side);
    const refused = (error) => { if (error.status !== 400) throw error; return error; };
    const top = await strongest(run, side, state.layer).catch(refused);
    if (!fresh()) return;
    const missing = top instanceof Error;
    for (const part of [tools, left, one, right]) part.hidden = missing;
    mute.hidden = !missing;
    mute.textContent = missing ? top.message : "";
    if (missing) { app.say(top.message); return; }
    state.query = Math.min(tokens.length - 1, state.query);
    app.unit = unitOf(app, top);
    const unit = Number(app.unit.split(".")[2]);
    const { values } = await valuesOf(isOff(app) ? app.before : run, app.unit); // off, it is 0 everywhere
    if (!fresh()) return;
    const pick = (to) => app.update({ unit: `${side}.${state.layer}.${to}` });
    const held = (to) => !api.holds(() => valuesOf(run, `${side}.${state.layer}.${to}`));
    swap(tools,
      Object.keys(run.tokens.queries).length > 1 ? choice("Stack", Object.keys(run.tokens.queries).map((name) => [name, name]), side, (stack) => app.update({ stack }), (stack) => !app.holds({ stack })) : null,
      stepper("layer", state.layer, layers - 1, (layer) => app.update({ layer }), 0, (layer) => !app.holds({ layer })),
      stepper("unit", unit, top.width - 1, pick, 0, held),
      el("span", { class: "quiet", title: `${WHAT}${top.gated ? "act(W_g x) times W_1 x" : "act(W_1 x)"}`, text: `${top.gated ? "gated" : "plain"} MLP, ${top.width} units` }));
    swap(list, unitTable(app, tokens, top, unit, pick, held));
    reveal(list);
    swap(one, ...unitCard(app, tokens, unit, values));
    intoSight(one.querySelector(".strip"));
    swap(right, predictions(run, app.before, side === "encoder" && run.tokens.queries.decoder ? -1 : state.query, app.model));
    const best = largest(values)[0];
    app.say(`unit ${unit} of layer ${state.layer}${isOff(app) ? ", off" : ""}: strongest at “${visible(tokens[best].text)}”, ${number(values[best])}`);
  }

  return { node, show };
}

/** The tokens, the largest activation first. */
const largest = (values) => values.map((_, i) => i).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
const isOff = (app) => app.state.units.includes(app.unit);

/** A row for each token, its strongest units as buttons. */
function unitTable(app, tokens, { strongest: top }, unit, pick, held) {
  const { query } = app.state;
  const button = ({ unit: each, value }) => el("button", {
    type: "button", class: value < 0 ? "minus" : "", "aria-pressed": String(each === unit), "aria-label": `unit ${each}: ${number(value)}`, asks: held(each),
    on: { click: () => pick(each) },
  }, String(each), el("span", { class: "quiet", text: number(value) }));
  const node = table("The strongest units at each token", ["token", "unit and its activation"], tokens.map((token, i) => [
    el("button", { type: "button", class: `token-name ${token.special ? "special" : ""}`, "aria-pressed": String(i === query), text: visible(token.text), on: { click: () => app.update({ query: i, unit: "" }) } }),
    el("td", {}, el("div", { class: "row-of" }, ...top[i].map(button))),
  ]), { class: "units" });
  node.tBodies[0].rows[query].setAttribute("aria-current", "true");
  return node;
}

/** Scrolls the table so that the chosen token is in sight. */
function reveal(list) {
  const row = list.querySelector("[aria-current]");
  const [room, box] = [list.getBoundingClientRect(), row.getBoundingClientRect()];
  if (box.top < room.top || box.bottom > room.bottom) list.scrollTop += box.top - room.top - room.height / 2;
}

/** One unit: the text in its colours, where it responds most, and a switch. */
function unitCard(app, tokens, unit, values) {
  const { state } = app;
  const most = Math.max(...values.map(Math.abs), 1e-9);
  const tints = Object.fromEntries(values.map((value, i) => [i, { tint: (Math.abs(value) / most).toFixed(3), title: number(value) }]));
  const signs = Object.fromEntries(values.map((value, i) => [i, value < 0 ? "" : "positive"]));
  const order = largest(values).slice(0, ROWS);
  const off = isOff(app);
  return [
    el("h2", {}, `Unit ${unit} of layer ${state.layer}`, off ? el("span", { class: "badge", title: "Its activations before it was switched off", text: "off" }) : null),
    strip("The text, coloured by this unit", tokens, state.query, (query) => app.update({ query, unit: app.unit }), signs, false, tints),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of activations" },
      table(`Activations of unit ${unit}, the largest first`, ["token", "activation", ""], order.map((i) => [
        visible(tokens[i].text), valued(values[i], number), el("span", { class: values[i] < 0 ? "bar minus" : "bar now", vars: { p: String(Math.abs(values[i]) / most) } }),
      ]), { class: "values" })),
    app.fixed() ? null : el("div", { class: "buttons" },
      el("button", { type: "button", class: "plain", "aria-pressed": String(off), title: "Ablation: off, this unit is 0 at every token", text: off ? "Switch on" : "Switch off", asks: true, on: { click: () => toggleUnit(app) } }),
      state.units.length ? action(`All units on (${state.units.length} off)`, true, () => app.update({ units: [] }), { class: "plain", asks: true }) : null),
  ].filter(Boolean);
}
