// The studio: one state, one run, one page at a time.

import * as api from "./api.js";
import { causes } from "./causes.js";
import { compare } from "./compare.js";
import { count, el, select, swap } from "./dom.js";
import { drawer } from "./drawer.js";
import { afresh, examples, seek, taking } from "./examples.js";
import { generate } from "./generate.js";
import { glossary } from "./glossary.js";
import { head, viewsOf } from "./head.js";
import { describe, listen } from "./keys.js";
import { atStep, changed, changesOf, lab, NONE } from "./lab.js";
import { layers } from "./layers.js";
import { lessons } from "./lessons.js";
import { map } from "./map.js";
import { model } from "./model.js";
import { neurons } from "./neurons.js";
import { numbers } from "./numbers.js";
import { showPins } from "./pins.js";
import { pooling } from "./pooling.js";
import { positions } from "./positions.js";
import { space } from "./space.js";
import { read, write } from "./state.js";
import { drops, showExport } from "./export.js";
import { intoSight } from "./tokens.js";
import { toy } from "./toy.js";
import { training } from "./training.js";
import { translate } from "./translate.js";
import { waiting } from "./waiting.js";

const PAGES = [model, map, head, numbers, translate, generate, layers, positions, space, neurons, pooling, toy, lab, causes, compare, training]
  .filter(({ id }) => !api.held || api.held.pages.includes(id));
const pageOf = (page) => PAGES.find(({ id }) => id === page);
const PLACES = ["page", "model", "text", "second"]; // where the back button leads
const FAMILIES = { encoder: "encoder", decoder: "decoder", seq2seq: "encoder-decoder" };

const at = (id) => document.getElementById(id);
const line = waiting(at("progress"));
const dark = matchMedia("(prefers-color-scheme: dark)");
let turn = 0;
let current = null; // the page on the screen: {id, node, show}
let shown = null; // the state that it showed last
const framed = location.protocol === "about:"; // in a notebook: a page without an address of its own
const understood = (hash = location.hash) => read(hash || api.held?.address || "", PAGES.map(({ id }) => id));

const app = {
  state: understood(),
  address: write,
  seen: new Set(), // pages that showed this run
  models: [], model: null, run: null, ran: "", before: null, known: null, output: null, space: null, unit: null, scale: 1,
  settled: null, // a promise: when the screen is done

  /** Changes the state, the address and the screen. */
  update(change) {
    const next = { ...app.state, ...change };
    if (!app.has(next.page)) return; // not exported
    if (next.text !== app.state.text || next.model !== app.state.model) Object.assign(next, { swaps: [], patches: [] }); // their places are of that text
    if (next.model !== app.state.model) next.saved = -1;
    const turned = PLACES.some((name) => next[name] !== app.state[name]);
    app.state = next;
    if (app.run && app.ran === runOf(next)) fit(); // a new run has its own tokens
    tell(turned);
    show();
  },
  theme: () => app.state.theme || (dark.matches ? "dark" : "light"),
  say(text) { at("live").textContent = text; },
  /** Returns a function: is this still the current screen? */
  fresh() { const mine = turn; return () => mine === turn; },
  isOff: ({ layer, head: h }) => app.state.off.includes(`${app.state.stack}.${layer}.${h}`),
  /** Whether nothing here can be run again: a trace, or an exported page. */
  fixed: () => api.held !== null || app.model.kind === "trace",
  /** The chosen checkpoint, if not the model itself. */
  saved() { return atStep(this.state.saved); },
  has: (id) => PAGES.some((page) => page.id === id),
  /** Whether this page can show a change: an exported one may lack the answers. */
  holds: (change) => api.holds(() => pageOf(app.state.page).needs?.({ ...app, state: fit({ ...app.state, ...change }) })),
  /** Further requests of the pages seen, the visible one first. */
  *along() {
    yield () => api.json("glossary");
    const first = (page) => page.id !== this.state.page;
    for (const page of PAGES.toSorted((a, b) => first(a) - first(b))) if (this.seen.has(page.id)) yield* page.along(this);
  },
  toggle({ layer, head: h } = app.state) {
    if (app.fixed() || !app.run) return;
    const name = `${app.state.stack}.${layer}.${h}`;
    const off = app.state.off.filter((each) => each !== name);
    app.update({ layer, head: h, off: off.length < app.state.off.length ? off : [...off, name] });
  },
  measures: () => ["weights", ...(app.known?.names ?? []).map(({ id }) => id)],
  zoom(by) { app.update({ zoom: Math.max(1, Math.min(48, Math.round(app.scale * 1.5 ** by + by / 2))) }); },
  pick(id) {
    const sample = app.models.find((each) => each.id === id)?.samples[0];
    app.update({ model: id, off: [], units: [], pins: [], unit: "", stack: "", layer: 0, head: 0, step: 0, zoom: 0, dot: -1, point: -1, vectors: "", variant: 0, word: 0, ...taking(sample ?? app.state) });
  },
  example() {
    const { samples } = app.model;
    const now = samples.findIndex(({ text, second }) => text === app.state.text && (second ?? "") === app.state.second);
    const sample = samples[(now + 1) % samples.length];
    if (sample) app.update(taking(sample));
  },
  /** Opens an address, in the same light and size. */
  visit(address) {
    app.state = { ...understood(address), theme: app.state.theme, large: app.state.large };
    tell(true);
    show();
  },
  lessons: () => (api.held ? null : taught.toggle()),
  glossary: () => explained.toggle(),
  write() { const box = at("text"); box.focus(); box.select(); },
  help() { at("help").showModal(); },
  async export() { await app.settled; showExport(app, at("export")); },
  asking: () => at("help").open || at("export").open,
};

const side = drawer(at("drawer"), () => { if (app.run) show(); });
const taught = lessons(app, side);
const explained = glossary(app, side);

/** What a run depends on. */
const runOf = ({ model, text, second, off, units, swaps, patches, donor, saved }) => JSON.stringify([model, text, second, off, units, swaps, patches, patches.length ? donor : "", saved]);

/** Writes the state into the address. */
function tell(turned = false) {
  if (!framed) history[turned ? "pushState" : "replaceState"](null, "", write(app.state));
  if (parent !== window) parent.postMessage({ glassformer: write(app.state) }, "*");
}

/** Limits layer, head, token and stack to those of this run. */
function fit(state = app.state) {
  const { run } = app;
  if (!run) return state;
  const named = (stack) => run.stacks.find(({ name }) => name === stack);
  const stack = named(state.stack) ?? (state.page === "model" ? named("decoder") : null) ?? run.stacks[0]; // the whole model is read from its end
  const within = (value, size) => Math.max(0, Math.min(size - 1, value));
  state.stack = stack.name;
  if (!viewsOf(stack.name, app.model).includes(state.view)) state.view = "raw";
  state.layer = within(state.layer, stack.layers);
  state.head = within(state.head, stack.heads);
  state.query = within(state.query < 0 ? telling(run, stack) : state.query, stack.rows);
  return state;
}

/** The token to begin with: a mask, the last token of a decoder, else the first word. */
function telling({ predictions: { kind, at: places }, tokens }, { name }) {
  if (kind === "masked") return places[0].token;
  if (kind === "next") return places[places.length - 1].token;
  return tokens.queries[name === "cross" ? "decoder" : name].findIndex(({ special }) => !special);
}

const room = () => `${innerWidth} ${innerHeight} ${document.body.clientWidth > 0}`;
let fitted = ""; // the window's size when last drawn

function show() {
  app.settled = draw();
  return app.settled;
}

async function draw() {
  const mine = ++turn;
  fitted = room();
  at("page").ariaBusy = "true"; // visible after a delay
  line.start();
  dress();
  await api.quiet();
  if (mine !== turn) return;
  api.turn();
  if (current?.id !== app.state.page) api.again("models"); // a running training has new checkpoints
  let failed = false; // no run for this state
  try {
    vacate(false);
    const refused = await ready().catch((error) => { failed = true; throw error; });
    if (mine !== turn) return;
    open(pageOf(app.state.page));
    bar();
    ask();
    showPins(app, at("pins"));
    await current.show();
    if (mine !== turn) return;
    app.seen.add(app.state.page);
    shown = app.state;
    complain(refused);
    taught.look();
    explained.look();
  } catch (error) {
    if (mine !== turn) return;
    if (error.status === 404 && !show.again) { // the server has dropped the run: run again
      show.again = true;
      api.forget();
      await show();
      show.again = false;
      return;
    }
    const returns = error.status === api.MISSING || error.status === api.CANCELLED; // an export lacks it, or it was stopped
    if (returns && shown && shown !== app.state) {
      app.state = shown;
      tell();
      await show();
      complain(error.message);
      return;
    }
    bar();
    if (app.model) ask();
    vacate(true, failed);
    complain(error instanceof api.Refused ? error.message : `Something went wrong on this page: ${error.message}`);
  } finally {
    if (mine === turn) {
      at("page").ariaBusy = "false";
      line.end();
    }
  }
}

/** Takes the picture of another state off the screen: all of the page if there is no run, else its numbers. */
function vacate(stale, all = false) {
  at("page").classList.toggle("stale", stale);
  for (const part of at("page").children) part.hidden = stale && all && !part.matches(".title");
}

const PLAIN = { ...NONE, saved: -1 };
const tried = (state) => ({ ...changesOf(state), saved: state.saved });
let sound = { of: "", changes: PLAIN }; // the last changes that could be run

/** The run of a state, and the one before its changes, if it has some. */
function runs({ model, text, second, off, saved, ...state }) {
  const changes = changed(state);
  const from = atStep(saved);
  const asked = [api.run(model, text, second, off, { ...from, ...changes })];
  if (off.length || Object.keys(changes).length) asked.push(api.run(model, text, second, [], from));
  return Promise.all(asked);
}

/**
 * The models and the run of this state. Changes that the server refuses are undone.
 * @returns {Promise<string>} why they were
 */
async function ready() {
  app.models = (await api.json("models")).models;
  const { state } = app;
  app.model = state.model ? app.models.find(({ id }) => id === state.model) : app.models[0];
  if (!app.model) {
    app.run = null;
    throw new api.Refused(state.model ? `This studio has no model “${state.model}”: choose another, or start the studio with it.` : "No model is loaded. Start the studio with a model folder.");
  }
  const sample = app.model.samples[0];
  const chosen = state.stack || state.layer || state.head || state.query >= 0 || state.off.length; // by the address
  if (!state.text && sample) Object.assign(state, { text: sample.text, second: sample.second ?? "", find: state.find || (chosen ? "" : sample.find ?? "") });
  state.model = app.model.id;
  if (!app.model.stacks.length) { // without heads: only some pages can show it
    app.run = null;
    if (!pageOf(state.page).formless) { state.page = "pooling"; tell(); }
    return "";
  }
  const of = [state.model, state.text, state.second].join("\n");
  const mine = turn;
  const back = sound.of === of ? sound.changes : PLAIN;
  let refused = "";
  const [run, before = null] = await runs(state).catch(async (error) => {
    if (error.status !== 400 || JSON.stringify(back) === JSON.stringify(tried(state))) throw error;
    const again = await runs({ ...state, ...back }).catch(() => { throw error; });
    refused = error.message;
    return again;
  });
  if (mine !== turn) return "";
  if (refused) {
    Object.assign(state, back);
    tell();
  }
  sound = { of, changes: tried(state) };
  if (app.run?.run !== run.run) app.seen.clear();
  Object.assign(app, { run, before, ran: runOf(state) });
  const missed = state.find ? await seek(run, state) : null;
  if (mine !== turn) return "";
  if (missed !== null) tell();
  fit();
  return refused || missed || "";
}

function open(page) {
  document.title = `${page.question} · glassformer studio`;
  const lead = app.theme() === "dark" ? page.leadDark ?? page.lead : page.lead;
  if (current?.id === page.id) {
    current.lead.textContent = lead;
    return;
  }
  const built = page.build(app);
  current = { id: page.id, show: built.show, lead: el("p", { class: "lead", text: lead }) };
  at("page").replaceChildren(
    el("div", { class: "title" }, el("h1", { text: page.question }), current.lead),
    built.node, el("p", { class: "caveat", text: page.caveat }));
}

/** Theme and size of type belong to the whole document. */
function dress() {
  const root = document.documentElement;
  root.dataset.theme = app.theme();
  root.classList.toggle("large", app.state.large);
}

function bar() {
  const { state } = app;
  const none = app.model || !app.models.length ? [] : [["", "choose a model"]];
  const models = select([...none, ...app.models.map(({ id, name }) => [id, name])], app.model?.id ?? "", app.pick, { "aria-label": "Model", asks: true });
  const about = app.model && `${FAMILIES[app.model.family] ?? app.model.family} · ${app.model.kind === "trace" ? "as recorded" : `${count(app.model.parameters)} parameters`}`;
  models.title = about ?? "";
  const button = (text, label, act, pressed) => el("button", {
    type: "button", class: "round", title: label, "aria-label": label, "aria-pressed": pressed, text, on: { click: act },
  });
  swap(at("bar"),
    el("a", { class: "brand", href: write({ ...state, page: PAGES[0].id }) }, el("img", { src: document.querySelector("link[rel=icon]").href, alt: "", width: "22", height: "22" }), "glassformer"),
    el("nav", { "aria-label": "Pages" }, ...PAGES.map(({ id, name, question }) => el("a", {
      href: write({ ...state, page: id }), title: question, "aria-current": id === state.page ? "page" : null, text: name,
    }))),
    el("div", { class: "model" }, models, about ? el("span", { class: "quiet about", text: about }) : null),
    el("div", { class: "rounds" },
      ...[["lessons", "Lessons", !api.held], ["glossary", "Glossary", explained.able]].filter(([, , able]) => able).map(([id, text]) => el("button", {
        type: "button", class: "plain", "data-opens": id, "aria-controls": "drawer", "aria-expanded": String(side.shows() === id), text, on: { click: () => app[id]() },
      })),
      button(app.theme() === "dark" ? "☀" : "☾", "Light or dark", () => app.update({ theme: app.theme() === "dark" ? "light" : "dark" })),
      button("A", "Large type", () => app.update({ large: !state.large }), String(state.large)),
      button("↓", "Export: picture, table, page, link, Python", app.export),
      button("?", "Shortcuts", app.help)));
  const nav = at("bar").querySelector("nav");
  if (!nav.contains(document.activeElement)) intoSight(nav); // in a narrow bar it scrolls
}

function ask() {
  const { state, model } = app;
  const form = at("ask");
  form.hidden = app.fixed() || pageOf(state.page).formless?.(app) === true;
  if (form.dataset.model !== model.id) {
    form.dataset.model = model.id;
    const second = model.stacks.length && { encoder: "second text, if any", seq2seq: "its translation (empty: the model writes it)" }[model.family];
    const samples = examples(model.samples, (sample) => app.update(taking(sample)));
    form.replaceChildren(
      el("input", { id: "text", name: "text", "aria-label": "Sentence", placeholder: "a sentence", spellcheck: "false" }),
      ...(second ? [el("input", { id: "second", name: "second", "aria-label": "Second text", placeholder: second, spellcheck: "false" })] : []),
      ...samples,
      el("button", { class: "main", text: "Run" }));
  }
  for (const box of form.querySelectorAll("input")) {
    const typing = box === document.activeElement && box.dataset.shown === state[box.name];
    if (!typing) box.value = state[box.name];
    box.dataset.shown = state[box.name];
  }
  const samples = form.querySelector("select");
  if (samples) samples.value = "";
}

function complain(text) {
  const line = at("trouble");
  line.hidden = !text;
  line.textContent = text;
}

at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const fields = new FormData(event.target);
  app.update({ text: fields.get("text"), second: fields.get("second") ?? "", query: -1, ...afresh() });
});
// A new address: from the bar, from the back button, or written by hand.
const follow = () => {
  if (location.hash === "#page") return;
  app.state = understood();
  show();
};
addEventListener("popstate", follow);
addEventListener("message", ({ source, data }) => { // from the notebook around this page
  if (source === window || source !== parent || typeof data?.glassformer !== "string") return;
  app.state = understood(data.glassformer);
  show();
});
document.addEventListener("click", (event) => {
  const link = framed && event.target.closest("a[href^='#/']");
  if (!link) return;
  event.preventDefault();
  app.update(understood(link.getAttribute("href")));
});
drops(app, complain);
dark.addEventListener("change", show);
let settle = 0;
const refit = () => {
  if (room() === fitted) return;
  clearTimeout(settle);
  settle = setTimeout(show, 120);
};
addEventListener("resize", refit);
// A notebook may load its frame before it has a size, and give it one without an event.
new ResizeObserver(refit).observe(document.documentElement);
describe(at("help"), Object.fromEntries(PAGES.map(({ id, name }) => [id, name])));
listen(app);
show();
