// The whole model on this text: tokens, embedding, layers, output.

import * as api from "./api.js";
import { action, el, number, share, swap, table, valued, visible } from "./dom.js";
import { sightOf } from "./grid.js";
import { headName } from "./head.js";
import { whyMute } from "./layers.js";
import { small } from "./map.js";
import { legend } from "./picture.js";
import { predictions } from "./predictions.js";
import { ribbons, sweep } from "./ribbons.js";
import { tips } from "./tip.js";
import { sides } from "./tokens.js";
import { folds, heightOf, labels, PARTS, thumbnail, tower, widths } from "./tower.js";

const HEAD = 44; // CSS pixels of a head's picture
const COLUMN = { least: 4, most: 8 }; // rem
const LAYER = { least: 3.2, usual: 5, most: 7.5 }; // rem: the height of an open layer
const ENDS = 9; // rem: tokens, embedding and output
const NAMES = { wide: 9, narrow: 6 }; // rem: beside the rows
const TITLES = { encoder: "Encoder", decoder: "Decoder" };
const OPENS = { token: "lab", attention: "head", cross: "head", mlp: "numbers", embedding: "layers", block: "layers", out: "layers" };
const LAST_STEP = 99; // of Numbers: the MLP's end

export const model = {
  id: "model",
  name: "Model",
  question: "What does the whole model do with this text?",
  lead: "Each token has a rail, its residual stream, as wide as its norm. Layer by layer, attention and MLP add to it; on it stands what the model would predict there.",
  caveat: "The words on the rails are the logit lens: information in another form stays invisible. Ribbons are the mean of a layer's heads.",
  build, along,
};

const network = ({ run }) => api.json(`runs/${run}/network`);
const guessed = ({ run }) => api.json(`runs/${run}/guesses`);
const means = ({ run }, stack) => api.bytes(`runs/${run}/mean/${stack}`);
const attended = ({ run }, stack, query) => api.json(`runs/${run}/mean/${stack}/${query}`);

function* along({ run, model: { predicts_tokens: able } }) {
  yield () => network(run);
  if (able) yield () => guessed(run);
  for (const { name } of run.stacks) {
    yield () => means(run, name);
    yield () => small(run, name);
  }
  for (const { name, rows } of run.stacks) for (let query = 0; query < rows; query++) yield () => attended(run, name, query);
}

/** The side whose tokens this stack's rows are. */
const sideOf = (stack) => (stack === "encoder" ? "encoder" : "decoder");

function build(app) {
  const tools = el("div", { class: "tools" });
  const holder = el("div", { class: "towers" });
  const mute = el("p", { class: "quiet" });
  const scroller = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Drawing of the model" }, holder);
  const centre = el("section", { class: "card drawing", "aria-label": "The whole model" }, mute, scroller);
  const right = el("div", { class: "right" });
  const node = el("div", { class: "page-model" }, tools, centre, right);
  let towers = [];
  let drawn = ""; // what the towers show
  let known = { run: "", guesses: null }; // the lens, once it has come
  let scale = null;
  const player = sweep(scroller, () => towers, {
    change() {
      swap(tools, ...toolbar(app, player, scale));
      look();
    },
    say: app.say,
  });

  scroller.addEventListener("scroll", () => look());
  holder.addEventListener("click", (event) => chosenBy(event, (at) => app.update(selection(at))));
  holder.addEventListener("dblclick", (event) => chosenBy(event, (at) => opened(app, at)));
  holder.addEventListener("keydown", (event) => onKey(app, towers, event));
  tips(holder, (event) => event.target.closest("[data-at]")?.ariaLabel);

  /** Shows what is in sight; while the sweep plays, from top to bottom: no frame has to draw anything new. */
  function look() {
    const sight = sightOf(scroller);
    for (const each of towers) each.view(player.plays() ? { ...sight, top: 0, height: Infinity } : sight);
  }

  /** Builds the towers, unless they show this already. */
  function draw(flow, pictures, sizes) {
    const { run, state, model: { family } } = app;
    const layers = run.stacks.map((stack) => folds(stack.layers, -1, state.layer) && state.layer);
    const key = JSON.stringify([run.run, layers, app.theme(), sizes]);
    if (key !== drawn) {
      drawn = key;
      player.stop();
      const focus = holder.contains(document.activeElement) && document.activeElement.dataset.at;
      const output = family === "encoder" ? "encoder" : "decoder";
      towers = flow.stacks.map((stack) => tower(scroller, {
        ...sizes, stack, scale, tokens: run.tokens.queries[stack.name], means: pictures, chosen: state.layer, theme: app.theme(), predictions: run.predictions, sides: (name) => sides(run, name), sideOfOutput: output, guesses: stack.name === output && known.run === run.run ? known.guesses : null,
        title: `${TITLES[stack.name]}: a column for each token, a row for each part of a layer`,
      }));
      holder.style.setProperty("--column", `${sizes.column}px`);
      holder.style.setProperty("--names", `${sizes.names}px`);
      holder.replaceChildren(...towers.map(({ standing }) => standing));
      for (const each of towers) each.measure();
      const own = towers.find(({ name }) => name === sideOf(state.stack));
      own.reveal(own.rowAt("block", state.layer), state.query); // before there are cells: they would be laid out
      if (focus) refocus(towers, focus);
    } else for (const each of towers) each.measure();
    mark(state, towers);
    look();
  }

  /** The sizes of the drawing in CSS pixels: columns as wide, and layers as high, as the room allows. */
  function fitted(flow) {
    const em = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const beside = matchMedia("(min-width: 960px)").matches;
    const counts = Object.values(app.run.tokens.queries).map((tokens) => tokens.length);
    const names = NAMES[beside ? "wide" : "narrow"] * em;
    const count = beside ? counts.reduce((sum, each) => sum + each, 0) : Math.max(...counts);
    const left = scroller.clientWidth - (beside ? counts.length : 1) * names - (counts.length - 1) * 2 * em;
    const column = Math.max(COLUMN.least * em, Math.min(COLUMN.most * em, Math.floor(left / count)));
    if (!beside) return { em, names, column, high: LAYER.usual * em }; // the page scrolls
    const heights = flow.stacks.map((stack) => heightOf(stack, app.state.layer)).map(({ units, pixels }) => (scroller.clientHeight - ENDS * em - pixels) / Math.max(units, 1));
    return { em, names, column, high: Math.max(LAYER.least * em, Math.min(LAYER.most * em, Math.floor(Math.min(...heights)))) };
  }

  /** Keeps the lens' answer by layer; −1 is the embedding. */
  function learn({ run }, { points, guesses }) {
    if (known.run !== run) known = { run, guesses: Object.fromEntries(points.map(({ layer }, i) => [layer ?? -1, guesses[i]])) };
    return known.guesses;
  }

  async function show() {
    const { run, state, model: { predicts_tokens: able } } = app;
    const fresh = app.fresh();
    const side = sideOf(state.stack);
    const reads = side === "encoder" && run.stacks.length > 1; // it predicts nothing itself
    const lens = able ? guessed(run).then((answer) => learn(run, answer)) : null;
    const asked = Promise.all([
      attended(run, side, state.query), side === "decoder" && run.stacks.length > 1 ? attended(run, "cross", state.query) : null, small(run, state.stack), lens]);
    asked.catch(() => null); // of several errors the first is shown
    const [flow, ...pictures] = await Promise.all([network(run).catch((error) => { if (error.status !== 400) throw error; return error; }), ...run.stacks.map(({ name }) => means(run, name))]);
    if (!fresh()) return;
    mute.textContent = flow instanceof api.Refused ? flow.message : whyMute(app, reads ? "decoder" : side);
    mute.hidden = !mute.textContent;
    [scroller.hidden, tools.hidden, right.hidden] = Array(3).fill(flow instanceof api.Refused);
    if (scroller.hidden) return app.say(mute.textContent);
    scale = widths(flow.stacks);
    swap(tools, ...toolbar(app, player, scale));
    draw(flow, Object.fromEntries(run.stacks.map(({ name }, i) => [name, pictures[i]])), fitted(flow));
    const [own, cross, heads, guesses = null] = await asked;
    if (!fresh()) return;
    towers.at(-1).guess(guesses);
    for (const each of holder.querySelectorAll(".ribbons")) each.remove();
    const [below, above] = ribbons(towers, { side, query: state.query, layer: state.layer }, { own: own.weights, cross: cross?.weights });
    below.shows = flow.stacks.map(({ name, points, norm }) => ({ name: `${name}, norms`, rows: points.map((each) => each.name), columns: run.tokens.queries[name].map(({ text }) => text), values: norm.flat() })); // for export
    holder.prepend(below);
    holder.append(above);
    swap(right, chosenCard(app, flow, reads ? null : guesses), predictions(run, app.before, reads ? -1 : state.query, app.model), headsCard(app, heads));
    app.say(right.querySelector("h2").textContent);
    return undefined;
  }

  return { node, show };
}

/** What an address names: stack.part.layer.token. */
function parsed(address) {
  const [stack, part, layer, token] = address.split(".");
  return { stack, part, layer: Number(layer), token: Number(token) };
}

/** Calls `act` with the part of the drawing that an event is about. */
function chosenBy(event, act) {
  const at = event.target.closest("[data-at]")?.dataset.at;
  if (at) act(parsed(at));
}

/** The state in which a part is chosen. */
const selection = ({ stack, part, layer, token }) => ({
  stack: part === "cross" ? "cross" : stack, ...(layer >= 0 ? { layer } : {}), ...(token >= 0 ? { query: token } : {}),
});

/** Opens the page that shows more of a part. */
function opened(app, at) {
  const page = OPENS[at.part];
  app.update({ ...selection(at), page, side: at.stack, ...(page === "head" ? { view: "mean" } : page === "numbers" ? { step: LAST_STEP } : {}) });
}

function onKey(app, towers, event) {
  const by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const at = towers.find((each) => each.isFocused());
  if (!at || !(by || ["Enter", " "].includes(event.key))) return;
  event.preventDefault();
  if (event.key === "Enter") chosenBy(event, (part) => opened(app, part));
  else if (event.key === " ") chosenBy(event, (part) => app.update(selection(part)));
  else {
    const next = at.next(...by);
    if (next) at.focus(...next);
  }
}

/** Gives the focus to the part of this address, if the towers still have it. */
function refocus(towers, address) {
  const { stack, part, layer, token } = parsed(address);
  const at = towers.find(({ name }) => name === stack);
  const row = at?.rowAt(part, layer);
  if (row?.has(token)) at.focus(row, token);
}

/** Marks the chosen token and layer; each tower has one stop of the Tab key. */
function mark({ stack, layer, query }, towers) {
  for (const each of towers) {
    const own = each.name === sideOf(stack);
    if (!each.isFocused()) each.setStop(own ? each.rowAt("block", layer) : each.rows[0], own ? query : 0);
    each.choose(own ? layer : null, own ? query : null);
  }
}

function toolbar({ theme }, player, scale) {
  return [
    action(player.name(), true, player.act, { class: "main" }),
    el("span", { class: "quiet", text: "Click a part to choose it; double-click or Enter opens it." }),
    el("span", { class: "legend rails", title: "Widths and colours are square roots: norms differ by orders of magnitude" }, el("i", { class: "rail" }), `norm, at most ${number(scale?.most ?? 0)}`, el("i", { class: "adds" }), `MLP adds, at most ${number(scale?.added ?? 0)}`),
    legend(theme(), false, "0", "1", "probability"),
  ];
}

/** The chosen token at the chosen layer: its numbers, and where to look closer. */
function chosenCard(app, flow, guesses) {
  const { run, state, model: { kind } } = app;
  const { stack, layer, query } = state;
  const side = sideOf(stack);
  const { points, norm, added } = flow.stacks.find(({ name }) => name === side);
  const rows = points.map((point, i) => ({ ...point, norm: norm[i][query], added: added[i]?.[query] })).filter((point) => point.layer === layer);
  const guess = guesses?.[layer]?.[query];
  const open = (page, title, change = {}) => (app.has(page) ? el("a", { class: "button", href: app.address({ ...state, ...change, page }), title, text: page[0].toUpperCase() + page.slice(1) }) : null);
  return el("section", { class: "card chosen-part", "aria-label": "The chosen token and layer" },
    el("h2", { text: `“${visible(run.tokens.queries[side][query].text)}” in layer ${layer}` }, run.stacks.length > 1 ? el("span", { class: "badge", text: side }) : null),
    table("What each part adds to the token's vector", ["", "adds", "norm"], rows.map((point) => [
      PARTS[point.part === "block" ? "mlp" : point.part], point.added === undefined ? "–" : valued(point.added, number), valued(point.norm, number)]), { class: "values parts" }),
    guess ? el("p", {}, "Guess after it: ", el("b", { text: visible(guess.text) }), ` ${share(guess.p)}`) : null,
    el("div", { class: "buttons" },
      open("head", "What this layer's heads look at here"), kind === "trace" ? null : open("numbers", "How the numbers of this layer are computed"),
      open("neurons", "The strongest units of this layer's MLP here"), open("layers", "This token through all layers", { side }), app.fixed() ? null : open("lab", "Change this token or its vector", { into: layer })));
}

const headsCard = (app, heads) => el("section", { class: "card", "aria-label": "Heads of this layer" },
  el("h2", { text: `Heads of layer ${app.state.layer}` }, app.run.stacks.length > 1 ? el("span", { class: "badge", text: app.state.stack }) : null),
  el("div", { class: "head-row" }, ...headPictures(app, heads)));

function headPictures(app, { bytes, shape: [, count, rows, columns] }) {
  const { run, state } = app;
  const [asking, asked] = sides(run, state.stack);
  const area = rows * columns;
  return Array.from({ length: count }, (_, head) => {
    const first = (state.layer * count + head) * area;
    const name = headName(state.layer, head);
    const picture = thumbnail(bytes.subarray(first, first + area), labels(asking, rows), labels(asked, columns), HEAD, app.theme(), `${state.stack}, layer ${state.layer}, head ${head}`);
    return el(app.has("head") ? "a" : "span", { href: app.has("head") ? app.address({ ...state, page: "head", head, view: "raw" }) : null, class: app.isOff({ layer: state.layer, head }) ? "off" : "", "aria-label": name }, picture, el("span", { class: "quiet", text: name }));
  });
}
