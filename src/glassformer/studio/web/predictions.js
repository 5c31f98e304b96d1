// What the model predicts: masked words, the next word, labels, a translation; before and after.

import { el, share, table, valued, visible } from "./dom.js";
import { signed } from "./signed.js";
import { groups } from "./tokens.js";

const SURE = 3; // words of each list that are always shown
const TITLES = {
  masked: "What is the masked word?",
  next: "What comes next?",
  label: "Which label?",
  translation: "The translation",
  span: "Where is the answer?",
  none: "Predictions",
};

/** The places to show: all masks; of many tokens, the chosen one, else the last. */
function places({ kind, at }, query) {
  if (kind === "masked") return at.slice(0, 4);
  const place = at.find(({ token }) => token === query) ?? at[at.length - 1];
  return place ? [place] : [];
}

function bar(p, kind) {
  return el("span", { class: `bar ${kind}`, vars: { p: String(p) } });
}

/** A probability; of a word that is not listed only the bound is known, the last listed one. */
const chance = (listed, id) => {
  const known = listed.find((each) => each.id === id);
  const { p } = listed[listed.length - 1];
  return known ? valued(known.p) : el("td", { class: "quiet", "data-value": "", title: "Not among the likeliest: at most this", text: p < 0.005 ? "<0.01" : `≤${share(p)}` });
};

/** The words of some guesses; two tokens that are read alike are shown as the vocabulary spells them. */
function named(guesses) {
  const known = new Map(guesses.map((each) => [each.id, each]));
  const all = [...known.values()];
  return (id) => {
    const { text, piece } = known.get(id);
    return visible(all.some((each) => each.id !== id && each.text === text) ? piece.replace(/^[Ġ▁]/u, "␣") : text);
  };
}

/** Those to show: the likeliest of both lists, and always the best three of each. */
function shortlist(now, then) {
  const most = new Map();
  for (const { id, p } of [...then, ...now]) most.set(id, Math.max(p, most.get(id) ?? 0));
  const sure = new Set([...now.slice(0, SURE), ...then.slice(0, SURE)].map(({ id }) => id));
  const byChance = [...most.keys()].sort((a, b) => most.get(b) - most.get(a));
  return byChance.filter((id, i) => sure.has(id) || i < now.length);
}

export function candidates(place, earlier, name, two = "before and after the change") {
  const word = named([...place.top, ...(earlier?.top ?? [])]);
  if (!earlier) {
    return table(name, ["word", "p", ""], place.top.map(({ id, p }) =>
      [word(id), valued(p), bar(p, "now")]), { class: "values" });
  }
  const of = (list, id) => list.find((each) => each.id === id)?.p;
  return table(`${name}, ${two}`, ["word", "before", "after", "change", ""], shortlist(place.top, earlier.top).map((id) => {
    const [then, now] = [of(earlier.top, id), of(place.top, id)];
    const known = then !== undefined && now !== undefined;
    return [
      word(id), chance(earlier.top, id), chance(place.top, id), known ? valued(now - then, signed) : el("td", { "data-value": "" }),
      el("span", { class: "bars" }, bar(then ?? 0, "then"), bar(now ?? 0, "now")),
    ];
  }), { class: "values both" });
}

/**
 * @param {object} run now
 * @param {object|null} before the run before its changes, if it has some
 */
export function predictions(run, before, query, model) {
  const now = run.predictions;
  const node = el("section", { class: "card predictions", "aria-label": "Predictions" },
    el("h2", { text: TITLES[now.kind] ?? TITLES.none }));
  const shown = places(now, query);
  const tokens = run.tokens.queries.decoder ?? run.tokens.queries.encoder;
  if (now.text) {
    const changed = before && before.predictions.text !== now.text;
    if (changed) node.append(el("p", { class: "quote then", text: before.predictions.text }));
    node.append(el("p", { class: "quote", text: now.text }), ...cut(run));
    if (before && !changed) node.append(el("p", { class: "quiet", text: "The same words as before the change." }));
  }
  for (const place of shown) {
    const name = where(now, place, visible(tokens[place.token]?.text ?? ""));
    const label = el(shown.length > 1 ? "p" : "span", { class: "quiet", text: name });
    if (name) (shown.length > 1 ? node : node.firstElementChild).append(label);
    node.append(candidates(place, before?.predictions.at.find(({ token }) => token === place.token), name || TITLES[now.kind]));
  }
  if (now.kind === "span") node.append(...spanned(now, tokens));
  if (now.follows) { // never exactly 0
    const then = before?.predictions.follows;
    node.append(table("Does the second text follow the first?", ["second text", ...(then ? ["before"] : []), "p", ""], [["follows", (p) => p], ["does not", (p) => 1 - p]].map(([name, of]) =>
      [name, ...(then ? [valued(of(then))] : []), valued(of(now.follows)), bar(of(now.follows), "now")]), { class: "values" }));
  } else if (!now.text && !now.at.length && !now.spans?.length) node.append(el("p", { class: "quiet", text: nothing(model) }));
  return node;
}

/** Answers: the likeliest marked in the text, which is coloured by where one starts or ends. */
function spanned({ spans, starts, ends }, tokens) {
  const words = ({ start, end }) => groups(tokens.slice(start, end + 1), { special: true, pieces: false }).map(({ text }) => text).join(" ");
  const [{ start, end }] = spans;
  return [el("p", { class: "quote", text: words(spans[0]) }),
    el("p", { class: "strip", role: "group", "aria-label": "Where the answer starts and ends" }, ...tokens.map(({ text }, i) => el("span", {
      class: `tinted positive ${i >= start && i <= end ? "asked" : ""}`, vars: { tint: Math.max(starts[i], ends[i]).toFixed(3) }, title: `start ${share(starts[i])}, end ${share(ends[i])}`, text: visible(text),
    }))),
    table("Answers, the likeliest first", ["answer", "start", "end", "p", ""], spans.map((each) =>
      [words(each), valued(starts[each.start]), valued(ends[each.end]), valued(each.p), bar(each.p, "now")]), { class: "values" })];
}

/** A translation that was cut at the length limit. */
export const cut = ({ predictions: { complete }, tokens }) => (complete ? [] : [el("p", { class: "quiet", text: `Cut at ${tokens.queries.decoder.length - 1} tokens: the length limit.` })]);

function where({ kind, at }, { token }, text) {
  if (kind === "next" || kind === "translation") return `after “${text}”`;
  if (at.length < 2) return "";
  return kind === "masked" ? `at token ${token}` : `“${text}”`;
}

function nothing(model) {
  if (model.kind === "trace") return "A trace holds no predictions.";
  if (model.calls.includes("answer")) return "Write a question, and as second text one that answers it.";
  return model.mask && model.calls.includes("fill")
    ? `Write ${model.mask} in place of a word, and the model guesses it${model.calls.includes("follows") ? "; or write a second text: does it follow?" : "."}`
    : "This model has no word predictions; its heads can still be shown.";
}
