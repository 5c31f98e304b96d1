// What does this head look at?

import * as api from "./api.js";
import { arcs } from "./arcs.js";
import { colours, words } from "./colour.js";
import { action, choice, el, number, share, swap, table, tick, valued, visible } from "./dom.js";
import { matrix } from "./matrix.js";
import { legend, rangeOf } from "./picture.js";
import { gather, groups, sides } from "./tokens.js";

const MOST_MOVED = 5; // heads in the list of those that changed most
const VIEWS = [
  ["raw", "raw", "The weights after the softmax"],
  ["value", "value-weighted", "Each weight times the length of what it brings home (Kobayashi 2020)"],
  ["rollout", "rollout", "All layers up to this one, multiplied (Abnar & Zuidema 2020)"],
  ["mean", "mean", "The mean over this layer's heads"],
  ["all", "all heads", "Every head of this layer in its colour; the matrix shows the chosen one"],
];
/** Rollout multiplies layers of one stack, so cross-attention has none. Values need the model's weights. */
export const viewsOf = (stack, { kind }) => VIEWS.map(([id]) => id).filter((id) => !(id === "rollout" && stack === "cross" || id === "value" && kind === "trace"));
const AT_ONCE = 32; // rows in one request
const ROWS = 14; // of the table of one token's weights

export const head = {
  id: "head",
  name: "Head",
  question: "What does this head look at?",
  lead: "On the left each line leads from a token to one it looks at; on the right all weights: rows look, columns are looked at.",
  caveat: "Weights say where a head looks, not what it does with what it finds: compare value-weighted ones.",
  build, along,
  needs: ({ run, state: { stack, layer, head: h, query, view } }) => [...(view === "all" ? everyIn(run, stack, layer) : [weights(run, [stack, layer, h], view)]), rowOf(run, [stack, layer, h], query)],
};

/** Every head of every stack, the chosen one and its stack first: [stack, layer, head]. */
export function everyHead({ run, state }) {
  const far = ([name, layer, h]) => (name === state.stack ? Number(layer !== state.layer || h !== state.head) : 2);
  return run.stacks.flatMap(({ name, layers, heads }) =>
    Array.from({ length: layers * heads }, (_, n) => [name, Math.floor(n / heads), n % heads])).sort((a, b) => far(a) - far(b));
}

/** A head's picture. */
export const weights = ({ run }, at, view = "raw") => api.bytes(`runs/${run}/head/${at.join("/")}?view=${view === "all" ? "raw" : view}`);

const headsOf = (run, stack) => run.stacks.find(({ name }) => name === stack).heads;

/** The pictures of all heads of a layer. */
const everyIn = (run, stack, layer) => Array.from({ length: headsOf(run, stack) }, (_, h) => weights(run, [stack, layer, h]));

/** Shows or hides a head among all of them. */
export function toggleShown({ state: { unshown }, update }, head) {
  const name = String(head);
  update({ view: "all", unshown: unshown.includes(name) ? unshown.filter((each) => each !== name) : [...unshown, name] });
}

/** Only this head, or all again. */
export function soleShown({ state: { head, unshown, stack }, run, update }) {
  const others = Array.from({ length: headsOf(run, stack) }, (_, h) => String(h)).filter((h) => h !== String(head));
  update({ view: "all", unshown: unshown.length ? [] : others });
}

const rowAt = ({ run }, at, query) => `runs/${run}/row/${at.join("/")}/${query}`;
const rowOf = (run, at, query) => api.json(rowAt(run, at, query));

/** The rows of a head, some at once. */
function* rowsOf(run, at) {
  const queries = [...sides(run, at[0])[0].keys()];
  for (let first = 0; first < queries.length; first += AT_ONCE) {
    const some = queries.slice(first, first + AT_ONCE);
    yield () => api.many(`runs/${run.run}/rows/${at.join("/")}?first=${first}&count=${some.length}`, some.map((query) => rowAt(run, at, query)));
  }
}

/** Pictures first, then all rows, then the other views. */
function* along(app) {
  const { run, state, model } = app;
  const heads = everyHead(app);
  for (const at of heads) yield () => weights(run, at, state.view === "rollout" && at[0] === "cross" ? "raw" : state.view);
  for (const at of heads) yield* rowsOf(run, at);
  for (const at of heads) for (const view of viewsOf(at[0], model)) yield () => weights(run, at, view);
}

export function stepper(label, value, most, change, least = 0, asks = () => false) {
  const step = (by, text, name) => {
    const able = value + by >= least && value + by <= most;
    return action(text, able, () => change(value + by), { "aria-label": name, asks: able && asks(value + by) });
  };
  return el("div", { class: "stepper", role: "group", "aria-label": label },
    step(-1, "‹", `${label} before`), el("span", {}, `${label} `, el("b", { text: value })), step(1, "›", `${label} after`));
}

/** Stack, layer and head: the same on every page that shows one head. */
export function whichHead(app) {
  const { state, run } = app;
  const { layers, heads } = run.stacks.find(({ name }) => name === state.stack);
  return [
    run.stacks.length > 1 ? choice("Stack", run.stacks.map(({ name }) => [name, name]), state.stack, (stack) => app.update({ stack }), (stack) => !app.holds({ stack })) : null,
    stepper("layer", state.layer, layers - 1, (layer) => app.update({ layer }), 0, (layer) => !app.holds({ layer })),
    stepper("head", state.head, heads - 1, (to) => app.update({ head: to }), 0, (to) => !app.holds({ head: to })),
  ];
}

function build(app) {
  const tools = el("div", { class: "tools" });
  const slider = el("input", { type: "range", min: "0", max: "1", step: "0.01", "aria-label": "Threshold of the lines",
    on: { input: () => app.update({ threshold: Number(slider.value) }) } });
  const least = el("output", {});
  const more = el("div", { class: "tools" });
  const pick = (row) => app.update({ query: shown.rows[row].of[0] });
  const lines = arcs(pick);
  const cells = matrix({ name: "Weights: rows look, columns are looked at", pick });
  const scale = el("div", {});
  const chips = el("div", { class: "chips", role: "group", "aria-label": "Heads in the picture" });
  const row = el("section", { class: "card row", "aria-label": "The chosen token's weights" });
  const node = el("div", { class: "page-head" }, tools,
    el("section", { class: "card lines", "aria-label": "Lines" },
      el("label", { class: "field" }, "lines from weight", slider, least), chips, lines.node),
    el("section", { class: "card cells", "aria-label": "Matrix" }, more, el("div", { class: "fit" }, cells.node), el("div", { class: "foot" }, el("p", { class: "quiet", text: "Point at a cell to read it; click to choose its row." }), scale)), row);
  const shown = { rows: [], columns: [], bytes: new Uint8Array(), power: 1 };

  async function show() {
    const { state, run } = app;
    const fresh = app.fresh();
    const { stack, layer, head: h, query } = state;
    const at = [stack, layer, h];
    swap(tools, ...whichHead(app),
      choice("Weights", VIEWS.filter(([id]) => viewsOf(stack, app.model).includes(id)), state.view, (view) => app.update({ view }), (view) => !app.holds({ view })));
    slider.value = String(state.threshold);
    least.textContent = state.threshold.toFixed(2);
    swap(more,
      tick("special tokens", state.special, (special) => app.update({ special }), "Hidden ones leave rows that no longer sum to one"),
      tick("word pieces apart", state.pieces, (pieces) => app.update({ pieces }), "Together: added where looked at, averaged where looking"),
      tick("faint too", state.faint, (faint) => app.update({ faint }), "More of the colours for small weights"));
    const { bytes, shape: [, width], power } = await weights(run, at, state.view);
    if (!fresh()) return;
    const [asking, asked] = sides(run, stack);
    shown.rows = groups(asking, state);
    shown.columns = groups(asked, state);
    shown.bytes = gather(bytes, width, shown.rows, shown.columns, power);
    shown.power = power;
    const range = rangeOf(shown.bytes, power);
    swap(scale, legend(app.theme(), state.faint, "0", range.end, "weight"));
    const chosen = shown.rows.findIndex(({ of }) => of.includes(query));
    const all = state.view === "all" ? await Promise.all(everyIn(run, stack, layer)) : [];
    if (!fresh()) return;
    const coloured = all.map((each, i) => ({ i, colour: `hsl(${Math.round((360 * i) / all.length)} 70% ${app.theme() === "dark" ? 65 : 40}%)`, power: each.power, bytes: gather(each.bytes, width, shown.rows, shown.columns, each.power) }));
    const isShown = (i) => !state.unshown.includes(String(i));
    chips.hidden = !all.length;
    swap(chips, ...coloured.map(({ i, colour }) => el("button", { type: "button", "aria-pressed": String(isShown(i)), "aria-label": `head ${i}`, text: i, vars: { ink: colour }, on: { click: () => toggleShown(app, i) } })));
    lines.show({ ...shown, threshold: state.threshold, chosen, heads: all.length ? coloured.filter(({ i }) => isShown(i)) : null });
    app.scale = cells.show({ ...shown, chosen, zoom: state.zoom, palette: words(colours(app.theme(), state.faint, range)) });
    cells.view.canvas.dataset.drawn = [run.run, stack, layer, h, state.view, app.theme(), state.faint].join();
    const exact = await rowOf(run, at, query);
    if (!fresh()) return;
    const best = strongest(exact.weights);
    swap(row, ...rowTable(app, asking[query], asked, exact, best));
    app.say(`layer ${layer}, head ${h}, “${visible(asking[query].text)}” looks at ${best.slice(0, 3)
      .map((i) => `“${visible(asked[i].text)}” ${share(exact.weights[i])}`).join(", ")}`);
  }

  return { node, show };
}

const strongest = (all) => all.map((_, i) => i).sort((a, b) => all[b] - all[a]);

function rowTable(app, token, asked, { weights: all, scores }, best) {
  const some = best.slice(0, ROWS);
  const rest = all.length - some.length;
  return [
    el("h2", { text: `“${visible(token.text)}” looks at` }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of weights" },
      table(`Weights of “${visible(token.text)}”, largest first`, ["token", ...(scores.length ? ["score"] : []), "weight", ""], some.map((i) => [
        visible(asked[i].text), ...(scores.length ? [valued(scores[i], number)] : []), valued(all[i]),
        el("span", { class: "bar now", vars: { p: String(all[i]) } }),
      ]), { class: "values" }),
      rest > 0 ? el("p", { class: "quiet", text: `and ${rest} more, with ${share(best.slice(ROWS).reduce((sum, i) => sum + all[i], 0))} together` }) : null),
    !app.has("numbers") || app.model.kind === "trace" ? null : el("div", { class: "buttons" }, el("button", { type: "button", class: "main", text: "How are these computed?", on: { click: () => app.update({ page: "numbers" }) } })),
  ];
}

/** The short name of a head, as papers write it. */
export const headName = (layer, head) => `L${layer}·H${head}`;

/** The heads whose attention moved most; a click opens one. */
export function movers(app, label, by) {
  const all = by.flatMap((row, layer) => row.map((share_, head) => ({ layer, head, by: share_ }))).sort((a, b) => b.by - a.by).slice(0, MOST_MOVED);
  return [el("span", { class: "quiet", text: label }), ...all.map(({ layer, head, by: much }) => el("button", {
    type: "button", "aria-pressed": String(layer === app.state.layer && head === app.state.head), text: headName(layer, head),
    title: `layer ${layer}, head ${head}: ${number(100 * much)} % of its attention goes elsewhere`, on: { click: () => app.update({ layer, head }) },
  }, el("span", { class: "quiet", text: ` ${Math.round(100 * much)} %` })))];
}
