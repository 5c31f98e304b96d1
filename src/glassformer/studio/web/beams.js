// A beam search as a tree of candidates.

import { svg } from "./charts.js";
import { el, exact, swap, table, valued, visible } from "./dom.js";

const [WIDE, HIGH, GAP, EDGE, TOP] = [92, 38, 30, 10, 28]; // of a node, and around it
const [FAR, APART] = [180, 58]; // largest distance of two nodes
const LETTERS = 11;

const clipped = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);
const STATES = { kept: "kept", done: "done", dropped: "dropped" };

/** The nodes from the root to this one. */
function lineage(nodes, node) {
  const path = [];
  for (let i = node; i !== null; i = nodes[i].parent) path.unshift(i);
  return path;
}

/** @param {(turn: number) => void} pick */
export function tree(pick) {
  const node = el("div", { class: "scroll tree", tabindex: "0", role: "group", "aria-label": "Tree of the search" });

  function show({ nodes, best }, turn) {
    const columns = [];
    nodes.forEach((each, i) => { (columns[each.turn] ??= []).push(i); });
    const rows = Math.max(...columns.map((each) => each.length));
    const far = Math.max(WIDE + GAP, Math.min(FAR, (node.clientWidth - 2 * EDGE + GAP) / columns.length));
    const apart = Math.max(HIGH + 6, Math.min(APART, (node.clientHeight - TOP - EDGE) / rows));
    const at = (i) => [EDGE + nodes[i].turn * far, TOP + columns[nodes[i].turn].indexOf(i) * apart];
    const [wide, high] = [(columns.length - 1) * far + WIDE + 2 * EDGE, TOP + rows * apart];
    const winner = nodes.findIndex((each, i) => each.state === "done" && lineage(nodes, i).map((n) => nodes[n].token).join() === best[0]?.ids.join());
    const won = new Set(winner < 0 ? [] : lineage(nodes, winner));
    const shown = svg("svg", { class: "chart", role: "img", "aria-label": `A tree of ${nodes.length} candidates, ${columns.length} steps deep`, width: wide, height: high },
      svg("rect", { class: "turn", x: EDGE + turn * far - 6, y: 2, width: WIDE + 12, height: high - 4, rx: 8 }),
      ...columns.map((_, i) => svg("text", { class: "count", x: EDGE + i * far + WIDE / 2, y: 17, "text-anchor": "middle", text: `step ${i + 1}` })),
      ...nodes.map(({ parent, state }, i) => (parent === null ? null : edge(at(parent), at(i), won.has(i) ? "won" : state))),
      ...nodes.map((each, i) => box(each, at(i), won.has(i), () => pick(each.turn))));
    shown.shows = [{ name: "All candidates", rows: nodes.map(({ text }) => visible(text)), columns: ["step", "sum"], values: nodes.flatMap((each) => [each.turn + 1, each.sum]) }];
    swap(node, shown);
    const left = EDGE + turn * far;
    if (left < node.scrollLeft || left + WIDE > node.scrollLeft + node.clientWidth) node.scrollLeft = left - node.clientWidth / 2;
  }

  return { node, show };
}

function edge([x1, y1], [x2, y2], kind) {
  const [a, b] = [[x1 + WIDE, y1 + HIGH / 2], [x2, y2 + HIGH / 2]];
  const middle = (a[0] + b[0]) / 2;
  return svg("path", { class: `edge ${kind}`, d: `M${a} C${[middle, a[1], middle, b[1], b[0], b[1]]}` });
}

function box({ text, sum, state, score }, [x, y], won, click) {
  return svg("g", { class: `node ${state}${won ? " won" : ""}`, transform: `translate(${x} ${y})`, on: { click } },
    svg("title", { text: `${visible(text)}: ${STATES[state]}, sum ${exact(sum)}${score === null ? "" : `, score ${exact(score)}`}` }),
    svg("rect", { width: WIDE, height: HIGH, rx: 7 }),
    svg("text", { x: 9, y: 16, class: "word", text: clipped(visible(text)) }),
    svg("text", { x: 9, y: 31, class: "sum", text: state === "done" ? `score ${exact(score)}` : exact(sum) }));
}

/** The candidates of one step, as a table. */
export function candidates({ nodes }, turn) {
  const here = nodes.filter((each) => each.turn === turn);
  const before = ({ parent }) => (parent === null ? "" : lineage(nodes, parent).slice(-2).map((i) => visible(nodes[i].text)).join(" "));
  return el("section", { class: "card", "aria-label": "Candidates of this step" },
    el("h2", { text: `Step ${turn + 1}: ${here.length} candidates` }),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of candidates" },
      table(`Candidates of step ${turn + 1}, the best first`, ["word", "after", "sum", ""], here.map((each) => [
        visible(each.text), el("td", { class: "after", text: before(each) }), valued(each.sum, exact), el("td", { class: `state ${each.state}`, text: STATES[each.state] }),
      ]), { class: "values ways" })));
}

/** The finished texts; each can be stepped through. */
export function endings({ best, penalty }, walk) {
  const length = penalty === 1 ? " ÷ length" : penalty === 0 ? "" : ` ÷ length^${penalty}`;
  return el("section", { class: "card", "aria-label": "Finished texts" },
    el("h2", {}, "Finished texts", el("span", { class: "quiet", text: `score = sum${length}` })),
    table("Finished texts, the best first", ["text", "score", ""], best.map((each) => [
      el("span", { class: "brief", title: each.text, text: visible(each.text) }), valued(each.score, exact),
      el("button", { type: "button", class: "plain", text: "Step through", asks: true, "aria-label": `Step through “${visible(each.text)}”`, on: { click: () => walk(each) } }),
    ]), { class: "values results" }));
}
