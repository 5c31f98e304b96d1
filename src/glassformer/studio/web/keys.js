// The shortcuts, and the dialog that lists them.

import { able } from "./compare.js";
import { el, table } from "./dom.js";
import { HOWS } from "./generate.js";
import { soleShown, toggleShown, viewsOf } from "./head.js";
import { nextUnit, toggleUnit } from "./neurons.js";
import { nextPin, togglePin } from "./pins.js";
import { poolOf, poolsOf } from "./pooling.js";
import { SHOWN } from "./positions.js";
import { PLANES } from "./space.js";
import { TOYS } from "./toy.js";

const next = (list, now, by) => list[(list.indexOf(now) + by + list.length) % list.length];
const STACKED = ["model", "map", "head", "numbers", "positions", "neurons", "lab", "compare", "training"];
const TOKENS = ["model", "map", "head", "numbers", "layers", "neurons", "lab", "causes", "compare", "training"];
const move = (name, by) => (app) => app.update({ [name]: Math.max(0, app.state[name] + by) });

/** [key, what it does, act, on which pages (all, if none are named)] */
export const KEYS = [
  ["Home", "Model", (app) => app.update({ page: "model" })],
  ...["Map", "Head", "Numbers", "Translate", "Generate", "Layers", "Positions", "Lab", "Compare", "Training"]
    .map((name, i) => [String((i + 1) % 10), name, (app) => app.update({ page: name.toLowerCase() })]),
  ...[["C", "Causes"], ["S", "Space"], ["N", "Neurons"], ["P", "Pooling"], ["Y", "Toy"]].map(([key, name]) => [key, name, (app) => app.update({ page: name.toLowerCase() })]),
  ["/", "write a sentence", (app) => app.write()],
  ["m", "next model", (app) => app.pick(next(app.models.map(({ id }) => id), app.model.id, 1))],
  ["e", "next example sentence", (app) => app.example()],
  ["s", "next stack: encoder, decoder, cross", (app) => app.update({ stack: next(app.run.stacks.map(({ name }) => name), app.state.stack, 1) }), STACKED],
  ["[", "layer before", move("point", -1), ["space"]],
  ["]", "layer after", move("point", 1), ["space"]],
  ["k", "word before", move("dot", -1), ["space"]],
  ["j", "word after", move("dot", 1), ["space"]],
  ["g", "all words, one word, sentences", (app) => app.update({ plane: next(PLANES, app.state.plane, 1) }), ["space"]],
  ["[", "layer before", move("layer", -1)],
  ["]", "layer after", move("layer", 1)],
  [",", "head before", move("head", -1)],
  [".", "head after", move("head", 1)],
  ["k", "token before", move("query", -1), TOKENS],
  ["j", "token after", move("query", 1), TOKENS],
  ["k", "word before", move("word", -1), ["translate", "pooling"]],
  ["j", "word after", move("word", 1), ["translate", "pooling"]],
  ["x", "switch this unit off, or on again", (app) => toggleUnit(app), ["neurons"]],
  ["n", "next of the strongest units", (app) => nextUnit(app, 1), ["neurons"]],
  ["b", "strongest unit before", (app) => nextUnit(app, -1), ["neurons"]],
  ["x", "switch this head off, or on again", (app) => app.toggle()],
  ["v", "pin this head, or unpin it", (app) => togglePin(app)],
  ["V", "next pinned head", nextPin],
  ["u", "all heads and units on again", (app) => app.update({ off: [], units: [] })],
  ["c", "colour by the next measure", (app) => app.update({ colour: next(app.measures(), app.state.colour, 1) }), ["map"]],
  ["h", "all heads in one picture: this one shown or hidden", (app) => toggleShown(app, app.state.head), ["head"]],
  ["H", "all heads in one picture: only this one, or all", soleShown, ["head"]],
  ["w", "weights: raw, value-weighted, rollout, mean, all heads", (app) => app.update({ view: next(viewsOf(app.state.stack, app.model), app.state.view, 1) }), ["head"]],
  ["t", "lower threshold", (app) => app.update({ threshold: Math.max(0, app.state.threshold - 0.05) }), ["head"]],
  ["T", "higher threshold", (app) => app.update({ threshold: Math.min(1, app.state.threshold + 0.05) }), ["head"]],
  ["p", "word pieces apart or together", (app) => app.update({ pieces: !app.state.pieces }), ["head"]],
  ["i", "special tokens shown or hidden", (app) => app.update({ special: !app.state.special }), ["head"]],
  ["+", "larger cells", (app) => app.zoom(1), ["head"]],
  ["-", "smaller cells", (app) => app.zoom(-1), ["head"]],
  ["n", "next step", move("step", 1), ["numbers"]],
  ["b", "step before", move("step", -1), ["numbers"]],
  ["i", "entry before", move("entry", -1), ["numbers"]],
  ["o", "entry after", move("entry", 1), ["numbers"]],
  ["g", "the slides' numbers, variants, this model", (app) => app.update({ pool: next(poolsOf(app), poolOf(app), 1), vectors: "", word: 0 }), ["pooling"]],
  ["n", "next variant", move("variant", 1), ["pooling"]],
  ["b", "variant before", move("variant", -1), ["pooling"]],
  ["g", "next toy", (app) => app.update({ toy: next(TOYS, app.state.toy, 1) }), ["toy"]],
  ["j", "text after", move("line", 1), ["toy"]],
  ["k", "text before", move("line", -1), ["toy"]],
  ["r", "train from the next seed", move("start", 1), ["toy"]],
  ["g", "greedy, sample, beam search", (app) => app.update({ how: next(HOWS, app.state.how, 1), at: 0 }), ["generate"]],
  ["n", "next step", move("at", 1), ["generate"]],
  ["b", "step before", move("at", -1), ["generate"]],
  ["k", "candidate before", move("word", -1), ["generate"]],
  ["j", "candidate after", move("word", 1), ["generate"]],
  ["t", "choose this candidate", () => document.querySelector("[data-take]")?.click(), ["generate"]],
  ["o", "reset the chosen words", (app) => app.update({ taken: "" }), ["generate"]],
  ["r", "resample", (app) => app.update({ seed: app.state.seed + 1, how: "sample" }), ["generate"]],
  ["w", "one head, or the mean of its layer", (app) => app.update({ view: app.state.view === "mean" ? "raw" : "mean" }), ["generate"]],
  ["s", "attention: to its own text, or to the source", (app) => app.update({ stack: app.state.stack === "cross" ? "decoder" : "cross" }), ["generate"]],
  ["b", "word before, in the other sentence", move("mate", -1), ["layers"]],
  ["n", "word after, in the other sentence", move("mate", 1), ["layers"]],
  ["s", "encoder or decoder", (app) => app.update({ side: app.state.side === "encoder" ? "decoder" : "encoder" }), ["layers"]],
  ["g", "waves, this model's, shuffled words, the slides' table", (app) => app.update({ show: next(SHOWN, app.state.show, 1) }), ["positions"]],
  ["k", "position before", move("place", -1), ["positions"]],
  ["j", "position after", move("place", 1), ["positions"]],
  ["r", "shuffle the words again", (app) => app.update({ show: "shuffle", shuffled: app.state.shuffled + 1 }), ["positions"]],
  ["o", "with or without positions", (app) => app.update({ show: "shuffle", flat: !app.state.flat }), ["positions"]],
  ["n", "token after, in the other sentence", move("mate", 1), ["lab"]],
  ["b", "token before, in the other sentence", move("mate", -1), ["lab"]],
  ["h", "mask this token", () => document.querySelector("[data-do=mask]")?.click(), ["lab"]],
  ["p", "patch this token from the other sentence", () => document.querySelector("[data-do=patch]")?.click(), ["lab"]],
  ["z", "undo", (app) => app.undo(), ["lab"]],
  ["Z", "redo", (app) => app.redo(), ["lab"]],
  ["w", "next model to compare with", (app) => app.update({ rival: next(["", ...able(app).map(({ id }) => id)], app.state.rival, 1), rivalAt: -1 }), ["compare"]],
  ["n", "next checkpoint", (app) => app.checkpoint(1), ["training"]],
  ["b", "checkpoint before", (app) => app.checkpoint(-1), ["training"]],
  ["f", "show faint weights too", (app) => app.update({ faint: !app.state.faint })],
  ["d", "light or dark", (app) => app.update({ theme: app.theme() === "dark" ? "light" : "dark" })],
  ["l", "large type", (app) => app.update({ large: !app.state.large })],
  ["L", "lessons", (app) => app.lessons()],
  ["G", "glossary", (app) => app.glossary()],
  ["E", "export: picture, table, page, link, Python", (app) => app.export()],
  ["?", "these shortcuts", (app) => app.help()],
  ["Escape", "up: from numbers to the head, from the head to the map, from there to the model", (app) => app.update({ page: { numbers: "head", map: "model", model: "model" }[app.state.page] ?? "map" })],
];

const IN_THE_GRID = [["← ↑ → ↓", "from part to part of the drawing", ["model"]], ["Enter", "open this part", ["model"]],
  ["← ↑ → ↓", "from head to head, in the map", ["map"]], ["Enter", "open the head, in the map", ["map"]]];

/** Handles keys, except in text fields. */
export function listen(app) {
  document.addEventListener("keydown", (event) => {
    const writing = event.target.matches("input:not([type=checkbox], [type=range]), select, textarea");
    if (event.key === "Escape" && writing) return event.target.blur();
    if (writing || event.ctrlKey || event.metaKey || event.altKey || app.asking()) return undefined;
    const shortcut = KEYS.find(([key, , , pages]) => key === event.key && (!pages || pages.includes(app.state.page)));
    if (!shortcut || !app.run && !app.model) return undefined;
    event.preventDefault();
    return shortcut[2](app);
  });
}

/** Fills the dialog with the shortcuts of these pages. */
export function describe(dialog, names) {
  const here = Object.values(names);
  const where = (pages) => (pages ? pages.map((id) => names[id]).filter(Boolean).join(", ") : "everywhere");
  const rows = [...KEYS.filter(([, does]) => !/^[A-Z]/.test(does) || here.includes(does)).map(([key, does, , pages]) => [key, does, where(pages)]),
    ...IN_THE_GRID.map(([key, does, pages]) => [key, does, where(pages)])].filter(([, , pages]) => pages);
  dialog.replaceChildren(
    el("h2", { id: "help-title", text: "Everything by keyboard" }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Shortcuts" }, table("Shortcuts", ["key", "what it does", "where"],
      rows.map(([key, does, pages]) => [el("kbd", { text: key === "Escape" ? "Esc" : key }), does, pages]), { class: "keys" })),
    el("form", { method: "dialog" }, el("button", { class: "plain", text: "Close" })));
}
