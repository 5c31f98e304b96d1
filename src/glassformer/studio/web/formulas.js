// Formulas as MathML. A formula is a nested list, ["=", "r", ["+", "h", "o"]]: studio/views/formulas.py writes them.

import { el, math } from "./dom.js";

const o = (sign) => math("mo", sign);
const row = (...parts) => math("mrow", ...parts);
const between = (sign, parts) => row(...parts.flatMap((part, i) => (i ? [o(sign), part] : [part])));
const VECTOR = /^([ehxqkvzopnrmyγβ]|on|token|segment|position)(_|$)|^b_[^j]/; // others are numbers or matrices

/** A name such as W_Q or a_j: what follows the underscore is its index. */
function symbol(name) {
  const [base, index] = name.split("_");
  const node = math(/^\d/.test(base) ? "mn" : "mi", base);
  if (VECTOR.test(name)) node.setAttribute("class", "bold");
  return index === undefined ? node : math("msub", node, math("mi", index));
}

const SUMS = ["+", "-", "times"];
const draw = (formula) => (typeof formula === "string" ? symbol(formula) : SIGNS[formula[0]](...formula.slice(1)));
const inside = (formula) => (SUMS.includes(formula[0]) ? row(o("("), draw(formula), o(")")) : draw(formula));
const LOOKS = [["0", "may look"], ["−∞", "may not"]];

const SIGNS = {
  "=": (a, b) => row(draw(a), o("="), draw(b)),
  "+": (...parts) => between("+", parts.map(draw)),
  "-": (a, b) => between("−", [draw(a), draw(b)]),
  "/": (a, b) => math("mfrac", draw(a), draw(b)),
  times: (a, b) => between("⊙", [inside(a), inside(b)]),
  scale: (a, b) => row(draw(a), draw(b)),
  of: (weights, x) => row(draw(weights), inside(x)),
  dot: (a, b) => between("·", [draw(a), draw(b)]),
  exp: (power) => math("msup", math("mi", "e"), draw(power)),
  sqrt: (of) => math("msqrt", draw(of)),
  square: (of) => math("msup", draw(of), math("mn", "2")),
  sum: (index, of) => row(math("munder", o("∑"), math("mi", index)), draw(of)),
  call: (name, of) => row(symbol(name), o("("), draw(of), o(")")),
  join: (first, last) => row(o("["), draw(first), o(";"), o("…"), o(";"), draw(last), o("]")),
  mask: (of) => row(draw(of), o("+"), o("{"), math("mtable", ...LOOKS.map((cells) => math("mtr", ...cells.map((text) => math("mtd", math("mtext", text))))))),
};

/** @returns {Element} one formula, with a label for screen readers */
export function drawFormula(formula, spoken) {
  const node = math("math", draw(formula));
  node.setAttribute("display", "block");
  node.setAttribute("aria-label", spoken);
  return node;
}

/** A name as text, y_0 with its index below. */
export function nameOf(name) {
  const [base, index] = name.split("_");
  return el("b", { text: base }, index === undefined ? null : el("sub", { text: index }));
}
