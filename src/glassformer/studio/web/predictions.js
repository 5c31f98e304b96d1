// What the model predicts: masked words, the next word, labels, a translation; before and after.

import { el, table, valued, visible } from "./dom.js";

const TITLES = {
  masked: "What is the masked word?",
  next: "What comes next?",
  label: "Which label?",
  translation: "The translation",
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

const signed = (by) => (Math.abs(by) < 0.005 ? "≈" : `${by > 0 ? "+" : "−"}${Math.abs(by).toFixed(2)}`);

/** A probability that is not among the top is unknown. */
const cell = (p, ...how) => (Number.isFinite(p) ? valued(p, ...how) : el("td", { "data-value": "", text: how.length ? "" : "·" }));

export function candidates(place, earlier, name, two = "before and after the change") {
  if (!earlier) {
    return table(name, ["word", "p", ""], place.top.map(({ text, p }) =>
      [visible(text), valued(p), bar(p, "now")]), { class: "values" });
  }
  const now = new Map(place.top.map(({ text, p }) => [text, p]));
  const then = new Map(earlier.top.map(({ text, p }) => [text, p]));
  const most = (text) => Math.max(then.get(text) ?? 0, now.get(text) ?? 0);
  const all = [...new Set([...then.keys(), ...now.keys()])].sort((a, b) => most(b) - most(a)).slice(0, place.top.length);
  return table(`${name}, ${two}`, ["word", "before", "after", "change", ""], all.map((text) => [
    visible(text), cell(then.get(text)), cell(now.get(text)), cell(now.get(text) - then.get(text), signed),
    el("span", { class: "bars" }, bar(then.get(text) ?? 0, "then"), bar(now.get(text) ?? 0, "now")),
  ]), { class: "values both" });
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
  if (!now.text && now.at.length === 0) node.append(el("p", { class: "quiet", text: nothing(model) }));
  return node;
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
  return model.mask && model.calls.includes("fill")
    ? `Write ${model.mask} in place of a word, and the model guesses it.`
    : "This model has no word predictions; its heads can still be shown.";
}
