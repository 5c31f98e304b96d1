// Why this word next?

import * as api from "./api.js";
import { candidates, endings, tree } from "./beams.js";
import { cached } from "./cached.js";
import { colours, words } from "./colour.js";
import { action, choice, el, select, share, swap, table, valued, visible } from "./dom.js";
import { stepper } from "./head.js";
import { matrix } from "./matrix.js";
import { legend } from "./picture.js";
import { intoSight } from "./tokens.js";

const WAYS = [
  ["greedy", "greedy", "Always the likeliest"],
  ["sample", "sample", "Drawn from the probabilities that are left"],
  ["beam", "beam search", "The best whole text among a few that run side by side"],
];
export const HOWS = WAYS.map(([id]) => id);
const LENGTHS = [4, 8, 12, 16, 24, 32, 48, 64];
const KEPT = [0, 1, 2, 3, 5, 8, 10, 20, 40, 100];
const ROWS = 3; // of the table of weights
const MOST_BEAMS = 8;
const HEAT = [0.1, 2]; // lowest and highest temperature

export const generate = {
  id: "generate",
  name: "Generate",
  question: "Why this word next?",
  lead: "One step is one word: what the model predicts, what the settings leave of it, what is chosen. Choose another word, and the text continues from there.",
  caveat: "Probabilities are the model's: a likely word can be wrong, and an unlikely one right.",
  build, along,
};

function build(app) {
  const none = el("section", { class: "card none", hidden: true });
  const toolbar = settings(app);
  const tools = el("div", { class: "tools" });
  const text = el("div", { class: "card flat" });
  const step = el("section", { class: "card choosing", "aria-label": "Candidates" });
  const which = el("div", { class: "tools" });
  const cells = matrix({ name: "Attention: a row for each step, columns are looked at", pick: (row) => app.update({ at: row }) });
  const looks = el("div", {});
  const attention = el("section", { class: "card looking", "aria-label": "What the new token looks at" },
    which, el("div", { class: "fit" }, cells.node), looks);
  const branches = tree((turn) => app.update({ at: turn }));
  const search = el("section", { class: "card searching", "aria-label": "The search" }, el("h2", {}, "All candidates",
    el("span", { class: "quiet", text: "sums of log-probabilities; the nearer to 0 the better" })), branches.node);
  const right = el("div", { class: "right" });
  const body = el("div", { class: "page-generate" }, tools, text, step, attention, search, right);
  const node = el("div", {}, none, body);

  async function show() {
    const { state, model } = app;
    const fresh = app.fresh();
    const able = writes(model);
    [none.hidden, body.hidden] = [able, !able];
    app.output = null;
    if (!able) {
      swap(none, ...others(app));
      return app.say("This model writes no text");
    }
    if (!HOWS.includes(state.how)) state.how = "greedy";
    state.heat = Math.max(HEAT[0], Math.min(HEAT[1], state.heat)); // an address may hold anything
    state.beams = Math.max(2, Math.min(MOST_BEAMS, state.beams));
    const beams = state.how === "beam";
    body.classList.toggle("beamed", beams);
    [step.hidden, attention.hidden, search.hidden] = [beams, beams, !beams];
    swap(tools, ...toolbar());
    const output = await api.post("generations", question(app)).catch((error) => {
      if (state.taken) swap(text, el("button", { type: "button", class: "plain", text: "Reset", on: { click: () => app.update({ taken: "", at: 0 }) } }));
      throw error;
    });
    if (!fresh()) return undefined;
    app.output = output;
    const last = (beams ? output.beams.caches.length : output.steps.length) - 1;
    state.at = Math.max(0, Math.min(last, state.at));
    swap(text, textOf(app, output, beams));
    intoSight(text.querySelector(".strip"));
    return beams ? searched(output) : stepped(output, fresh);
  }

  function searched(output) {
    const { state } = app;
    const walk = ({ ids }) => app.update({ how: "greedy", taken: ids.map((id, i) => `${i}-${id}`).join("."), at: 0 });
    branches.show(output.beams, state.at);
    swap(right, endings(output.beams, walk), candidates(output.beams, state.at), cached(output.beams.caches[state.at], output.room, state.beams, ""));
    const [best] = output.beams.best;
    app.say(`step ${state.at + 1} of ${output.beams.caches.length}; the best text is “${best.text}”, score ${best.score.toFixed(2)}`);
  }

  async function stepped(output, fresh) {
    const { state } = app;
    const now = output.steps[state.at];
    state.word = Math.max(0, Math.min(now.top.length - 1, state.word));
    swap(step, ...choosing(app, output, now));
    swap(right, cached(now.cache, output.room, 1, again(output, state.at)));
    const place = at(app);
    swap(which, el("h2", { text: "Attention of the last token" }), ...whichRow(app, place));
    const [seen, { weights }] = await looked(output, place);
    if (!fresh()) return;
    const before = [...output.prompt, ...output.generated];
    const name = (token) => ({ text: visible(token.text), special: token.special });
    const rows = output.steps.map((_, i) => name(before[output.prompt.length - 1 + i]));
    const columns = (place.stack === "cross" ? output.source : before.slice(0, seen.shape[1])).map(name);
    swap(looks, rowTable(rows[state.at], columns, weights[state.at], legend(app.theme(), state.faint, "0", "1", "colour")));
    cells.show({ bytes: seen.bytes, rows, columns, chosen: state.at, zoom: 0, stretch: true, palette: words(colours(app.theme(), state.faint)) });
    cells.view.canvas.dataset.drawn = [output.generation, place.stack, place.layer, place.head ?? "mean", app.theme(), state.faint].join();
    app.say(`step ${state.at + 1} of ${output.steps.length}: “${visible(output.generated[state.at].text)}”, ${share(now.top.find(({ id }) => id === now.token).p[0])}`);
  }

  return { node, show };
}

/** The attention of every step, as bytes and as numbers. */
function looked({ generation }, { stack, layer, head }) {
  const place = `${stack}/${layer}${head === null ? "" : `?head=${head}`}`;
  return Promise.all([api.bytes(`generations/${generation}/attention/${place}`), api.json(`generations/${generation}/rows/${place}`)]);
}

/** The visible head first, then the others. */
function* along(app) {
  const { model, output } = app;
  if (!writes(model) || !output || output.beams) return;
  const place = at(app);
  yield () => looked(output, place);
  for (const { name, layers, heads } of place.stacks) {
    for (let layer = 0; layer < layers; layer++) {
      for (const head of [null, ...Array(heads).keys()]) yield () => looked(output, { stack: name, layer, head });
    }
  }
}

const writes = ({ calls }) => calls.includes("generate") || calls.includes("translate");

/** The request for this state. */
function question(app) {
  const { state, model } = app;
  const asked = { model: model.id, ...app.saved(), text: state.text, max_new_tokens: Math.max(1, Math.min(64, state.most)) };
  if (state.how === "beam") return { ...asked, num_beams: state.beams };
  asked.taken = branches(state.taken).slice(0, 64);
  if (state.how !== "sample") return asked;
  return { ...asked, do_sample: true, temperature: state.heat, top_k: state.best, top_p: state.mass || 1, seed: state.seed };
}

/** The settings. Sliders are built once, so that dragging is not interrupted. */
function settings(app) {
  const change = (name) => (value) => app.update({ [name]: Number(value), at: 0 });
  const slider = (label, name, min, max) => {
    const box = el("input", { type: "range", min, max, step: "0.05", "aria-label": label, asks: true, on: { input: () => change(name)(box.value) } });
    const shown = el("output", {});
    const node = el("label", { class: "field short" }, label, box, shown);
    return () => {
      box.value = String(app.state[name]);
      shown.textContent = app.state[name].toFixed(2);
      return node;
    };
  };
  const [heat, mass] = [slider("temperature", "heat", ...HEAT.map(String)), slider("top-p", "mass", "0.05", "1")];
  const options = (numbers, now, say) => [...new Set([...numbers, now])].sort((a, b) => a - b).map((n) => [String(n), say(n)]);
  return () => {
    const { how, best, beams, most } = app.state;
    return [
      choice("How to choose", WAYS, how, (to) => app.update({ how: to, at: 0 }), () => true),
      ...(how === "sample" ? [
        heat(),
        el("label", { class: "field" }, "top-k", select(options(KEPT, best, (n) => (n ? String(n) : "all")), String(best), change("best"), { asks: true })),
        mass(),
        el("button", { type: "button", class: "plain", text: "Resample", asks: true, on: { click: () => app.update({ seed: app.state.seed + 1 }) } }),
      ] : []),
      ...(how === "beam" ? [stepper("beams", beams, MOST_BEAMS, change("beams"), 2, () => true)] : []),
      el("label", { class: "field" }, "at most", select(options(LENGTHS, most, (n) => `${n} tokens`), String(most), change("most"), { asks: true })),
      app.state.off.length ? el("span", { class: "quiet", text: "here all heads are on" }) : null,
    ];
  };
}

/** The prompt, then a button for each generated token. */
function textOf(app, output, beams) {
  const { state } = app;
  const ended = { end: "ends here", length: "length limit", stop: "ends here" }[output.stopped];
  return el("div", { class: "strip", role: "group", "aria-label": "The text: choose a word to see how it was chosen" },
    ...output.prompt.map((token) => el("span", { class: token.special ? "prompt special" : "prompt", text: visible(token.text) })),
    ...output.generated.map((token, i) => el("button", {
      type: "button", class: `${token.special ? "special" : ""} ${!beams && output.steps[i].chosen ? "asked" : ""}`,
      "aria-current": i === state.at ? "step" : null, "aria-pressed": String(i === state.at), title: `step ${i + 1}`,
      text: visible(token.text), on: { click: () => app.update({ at: i }) },
    })),
    el("span", { class: "quiet ended", text: ended }));
}

/** The user's choices in the address: 2-17.5-9 is token 17 at step 2, then 9 at step 5. */
const branches = (text) => text.split(".").filter((each) => /^\d{1,3}-\d{1,9}$/.test(each)).map((each) => each.split("-").map(Number));

/** The same with one more choice; choices for later steps are dropped. */
const withChoice = ({ taken: text, at }, id) => [...branches(text).filter(([step]) => step < at), [at, id]].map((each) => each.join("-")).join(".");

function choosing(app, output, now) {
  const { state } = app;
  const before = [...output.prompt, ...output.generated][output.prompt.length - 1 + state.at];
  const turn = (by, name) => action(name, output.steps[state.at + by] !== undefined, () => app.update({ at: state.at + by }), { class: by > 0 ? "main" : "plain" });
  const titles = now.rules.map(({ name, value }) => (value === null ? name : `${name} ${Number(value.toFixed(2))}`));
  return [
    el("div", { class: "step-head" },
      el("h2", {}, el("span", { class: "count", text: state.at + 1 }), `What comes after “${visible(before.text)}”?`),
      el("div", { class: "buttons" }, turn(-1, "Back"), turn(1, "Next"))),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of candidates" },
      table("Candidates, the likeliest first: chances before and after each setting", ["word", "model", ...titles, "", ""],
        now.top.map((each, i) => candidate(app, now, each, i)), { class: "values chances", "data-of": `${output.generation}.${state.at}` })),
    el("p", { class: "quiet", text: summary(app, output, now) }),
    el("div", { class: "buttons", "data-of": `${output.generation}.${state.at}` }, ...taken(app, now)),
  ];
}

function candidate(app, now, each, i) {
  const { state } = app;
  const chosen = each.id === now.token;
  const gone = each.cut !== null;
  const left = each.p[each.p.length - 1];
  const note = chosen ? (now.chosen ? "your choice" : "chosen") : gone ? `cut by ${now.rules[each.cut].name}` : "";
  const word = el("button", {
    type: "button", class: `word ${chosen ? "chosen" : ""} ${gone ? "gone" : ""}`, "aria-pressed": String(i === state.word), text: visible(each.text),
    title: `Choose “${visible(each.text)}” at this step`, asks: true, on: { click: () => app.update({ word: i, taken: withChoice(state, each.id) }) },
  });
  return [
    word, ...each.p.map((p, n) => (gone && n > each.cut ? el("td", { class: "gone", text: "–" }) : valued(p))),
    now.rules.length
      ? el("span", { class: "bars" }, el("span", { class: "bar then", vars: { p: String(each.p[0]) } }), el("span", { class: "bar now", vars: { p: String(left) } }))
      : el("span", { class: "bar now", vars: { p: String(left) } }),
    el("td", { class: chosen ? "note now" : "note", text: note }),
  ];
}

/** One sentence about the choice. */
function summary({ state }, output, now) {
  const name = `“${visible(output.generated[state.at].text)}”`;
  const lefts = now.rules.filter(({ name: rule }) => rule !== "temperature").map((rule) => `${rule.name} leaves ${rule.left.toLocaleString("en-US")}`);
  const how = now.chosen ? `${name} is your choice` : state.how === "sample" ? `${name} was drawn` : `${name} is the likeliest`;
  return [`${how}; its log-probability is ${now.logprob.toFixed(3).replace("-", "−")}`, ...lefts].join("; ");
}

function taken(app, now) {
  const { state } = app;
  const marked = now.top[state.word];
  return [
    el("button", { type: "button", class: "plain", "data-take": true, asks: true, disabled: marked.id === now.token && now.chosen,
      text: `Choose “${visible(marked.text)}”`, on: { click: () => app.update({ taken: withChoice(state, marked.id) }) } }),
    state.taken ? el("button", { type: "button", class: "plain", text: "Reset", asks: true, on: { click: () => app.update({ taken: "" }) } }) : null,
  ].filter(Boolean);
}

/** Which attention is shown: a head, or (null) the mean of a layer's. */
function at({ state, model }) {
  const stacks = model.stacks.filter(({ name }) => name !== "encoder");
  const stack = stacks.find(({ name }) => name === state.stack) ?? stacks[0];
  const within = (value, size) => Math.min(size - 1, value);
  return {
    stack: stack.name, stacks, layers: stack.layers, heads: stack.heads,
    layer: within(state.layer, stack.layers), head: state.view === "mean" ? null : within(state.head, stack.heads),
  };
}

function whichRow(app, place) {
  const numbered = (name, count) => Array.from({ length: count }, (_, i) => [String(i), `${name} ${i}`]);
  return [
    place.stacks.length > 1 ? select([["decoder", "its own words"], ["cross", "the source"]], place.stack, (stack) => app.update({ stack }), { "aria-label": "Looks at" }) : null,
    select(numbered("layer", place.layers), String(place.layer), (layer) => app.update({ layer: Number(layer) }), { "aria-label": "Layer" }),
    select([["mean", "mean"], ...numbered("head", place.heads)], String(place.head ?? "mean"),
      (head) => app.update(head === "mean" ? { view: "mean" } : { view: "raw", head: Number(head) }), { "aria-label": "Head" }),
  ];
}

function rowTable(row, columns, weights, colour) {
  const best = weights.map((_, i) => i).sort((a, b) => weights[b] - weights[a]).slice(0, ROWS);
  return table(`“${row.text}” looks at, the most first`, [`“${row.text}” looks at`, "weight", colour], best.map((i) => [
    columns[i].text, valued(weights[i]), el("span", { class: "bar now", vars: { p: String(weights[i]) } }),
  ]), { class: "values" });
}

/** The cost without a cache. */
function again({ prompt, steps }, step) {
  const counts = steps.slice(0, step + 1).map((_, i) => prompt.length + i);
  const all = counts.reduce((a, b) => a + b, 0);
  const own = counts[step];
  return step ? `So far ${own} tokens went through the decoder; without a cache it would have been ${all}.` : "The prompt is read at once; from now on each step adds one token.";
}

function others(app) {
  const able = app.models.filter(writes);
  return [
    el("h2", { text: "This model writes no text" }),
    el("p", { text: able.length ? "Only a decoder writes, word after word. These models here have one:"
      : "Only a decoder writes, word after word. Start the studio with the folder of such a model: glassformer studio FOLDER" }),
    el("div", { class: "buttons" }, ...able.map(({ id, name }) => el("button", { type: "button", class: "main", text: name, on: { click: () => app.pick(id) } }))),
  ];
}
