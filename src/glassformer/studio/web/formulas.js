// The formulas of the slides.

import { math } from "./dom.js";

const i = (name) => math("mi", name);
const o = (sign) => math("mo", sign);
const row = (...parts) => math("mrow", ...parts);
const sub = (a, b) => math("msub", i(a), i(b));
const sum = (index) => math("munder", o("∑"), i(index));
const exp = (power) => math("msup", i("e"), power);
const bold = (name) => { const node = i(name); node.setAttribute("class", "bold"); return node; };
const boldSub = (a, b) => math("msub", bold(a), i(b));

/** One formula a step; `cross`: keys and values come from the encoder. */
const FORMULAS = {
  input: () => [bold("x"), o("="), i("embed"), o("("), i("token"), o(")"), o("+"), i("embed"), o("("), i("position"), o(")")],
  qkv: (cross) => [
    bold("q"), o("="), sub("W", "Q"), bold("x"), o(","),
    boldSub("k", "j"), o("="), sub("W", "K"), boldSub(cross ? "m" : "x", "j"), o(","),
    boldSub("v", "j"), o("="), sub("W", "V"), boldSub(cross ? "m" : "x", "j"),
  ],
  scores: () => [sub("s", "j"), o("="), bold("q"), o("·"), boldSub("k", "j")],
  scaled: () => [sub("u", "j"), o("="), math("mfrac", sub("s", "j"), math("msqrt", i("d")))],
  masked: () => [sub("w", "j"), o("="), sub("u", "j"), o("+"), row(o("{"), math("mtable",
    math("mtr", math("mtd", math("mn", "0")), math("mtd", math("mtext", "may look"))),
    math("mtr", math("mtd", row(o("−"), i("∞"))), math("mtd", math("mtext", "may not")))))],
  weights: () => [sub("a", "j"), o("="), math("mfrac", exp(sub("w", "j")), row(sum("i"), exp(sub("w", "i"))))],
  mixed: () => [bold("z"), o("="), sum("j"), sub("a", "j"), boldSub("v", "j")],
  out: () => [bold("o"), o("="), sub("W", "O"), o("["), boldSub("z", "0"), o(";"), o("…"), o(";"), boldSub("z", "H−1"), o("]")],
  residual: () => [bold("r"), o("="), bold("x"), o("+"), bold("o")],
  norm: () => [bold("n"), o("="), i("γ"), math("mfrac", row(bold("r"), o("−"), i("μ")), i("σ")), o("+"), i("β")],
  mlp: () => [bold("y"), o("="), sub("W", "2"), i("f"), o("("), sub("W", "1"), bold("n"), o(")")],
};

/** @returns {Element} the formula of a step, with a label for screen readers */
export function formula(step, spoken, cross = false) {
  const node = math("math", row(...FORMULAS[step](cross)));
  node.setAttribute("display", "block");
  node.setAttribute("aria-label", spoken);
  return node;
}
