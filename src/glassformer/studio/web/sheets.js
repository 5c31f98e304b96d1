// Tables that the server computes, each with its sentences.

import { el, number, table, valued } from "./dom.js";

const cell = (shares) => (value) => {
  if (value === null) return el("td", { class: "quiet", "data-value": "", text: "·" });
  if (typeof value !== "number") return value;
  return valued(value, number, shares ? { class: "share", vars: { p: String(Math.max(0, Math.min(1, value))) } } : {});
};

/** @param {{title: string, text: string, columns: string[], rows: (string|number|null)[][], shares: boolean}} what */
export const sheet = ({ title, text, columns, rows, shares }) => el("section", { class: "card sheet", "aria-label": title },
  el("h2", { text: title }), text ? el("p", { class: "quiet", text }) : null,
  el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Table: ${title}` },
    table(title, columns, rows.map(([name, ...rest]) => [name, ...rest.map(cell(shares))]), { class: "values" })));
