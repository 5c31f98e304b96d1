// The glossary: terms on the page are underlined (but no quoted tokens); a click on one, or the key G, opens the list.

import * as api from "./api.js";
import { el, swap } from "./dom.js";

const MARK = "term"; // the name of the highlight: see drawer.css
const LIVE = "button, a, select, input, svg, canvas, math, pre, .tower, [role=grid]"; // not to be read as prose

/** The places of terms in some elements, the first of each. @returns {Map<object, Range>} */
function places(terms, nodes) {
  const found = new Map();
  const forms = terms.flatMap((term) => [term.name, ...term.also].map((form) => [form.toLowerCase(), term])).sort(([a], [b]) => b.length - a.length);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}“])(?:${forms.map(([form]) => RegExp.escape?.(form) ?? form.replace(/[\\^$.*+?()[\]{}|-]/g, "\\$&")).join("|")})(?![\\p{L}\\p{N}])`, "giu");
  const known = new Map(forms.toReversed());
  const walk = (node) => {
    for (const child of node.childNodes) {
      if (child.nodeType === Node.TEXT_NODE) read(child);
      else if (child.nodeType === Node.ELEMENT_NODE && !child.hidden && !child.matches(LIVE)) walk(child);
    }
  };
  const read = (text) => {
    for (const { 0: form, index } of text.data.matchAll(pattern)) {
      const term = known.get(form.toLowerCase());
      if (!term || found.has(term)) continue;
      const range = new Range();
      range.setStart(text, index);
      range.setEnd(text, index + form.length);
      found.set(term, range);
    }
  };
  for (const node of nodes) walk(node);
  return found;
}

export function glossary(app, drawer) {
  const page = document.getElementById("page");
  const able = api.holds(() => api.json("glossary"));
  let marked = new Map();
  let all = [];

  const at = ({ clientX: x, clientY: y }) => [...marked].find(([, range]) => [...range.getClientRects()].some((box) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom))?.[0];
  for (const node of [page, drawer.body]) {
    node.addEventListener("click", (event) => {
      const term = event.target.closest(LIVE) ? null : at(event);
      if (term) show(term);
    });
    node.addEventListener("pointermove", (event) => { node.classList.toggle("on-term", Boolean(!event.target.closest(LIVE) && at(event))); });
  }

  /** Underlines the terms of this screen. */
  async function look() {
    if (!able || !globalThis.CSS?.highlights) return;
    all = (await api.json("glossary").catch(() => null))?.terms ?? all; // without a server the page says so itself
    marked = places(all, [page, ...(drawer.shows() === "lessons" ? [drawer.body] : [])]);
    CSS.highlights.set(MARK, new Highlight(...marked.values()));
  }

  /** The list: those on the page first; one may be pointed out. */
  function show(chosen = null) {
    const here = all.filter((term) => marked.has(term));
    const entries = (terms) => el("dl", {}, ...terms.flatMap((term) => [el("dt", { tabindex: term === chosen ? "-1" : null, class: term === chosen ? "chosen" : "", text: term.name }), el("dd", { text: term.text })]));
    const filter = el("input", { type: "text", "aria-label": "Find a term", placeholder: "find a term", spellcheck: "false", on: { input: () => list(filter.value.trim().toLowerCase()) } });
    const parts = el("div", { class: "terms" });
    const list = (part) => {
      const fit = (terms) => terms.filter(({ name, also, text }) => [name, ...also, text].some((each) => each.toLowerCase().includes(part)));
      const [near, rest] = [fit(here), fit(all.filter((term) => !here.includes(term)))];
      parts.replaceChildren(...(near.length ? [el("h3", { text: "On this page" }), entries(near)] : []), ...(rest.length ? [el("h3", { text: near.length ? "All others" : "All terms" }), entries(rest)] : []),
        ...(near.length + rest.length ? [] : [el("p", { class: "quiet", text: "There is no such term." })]));
    };
    list("");
    drawer.open("glossary", "Glossary");
    swap(drawer.body, filter, parts);
    const entry = parts.querySelector(".chosen");
    if (!entry) return;
    entry.focus({ preventScroll: true });
    drawer.body.scrollTop = entry.offsetTop - drawer.body.offsetTop - 8;
  }

  return {
    able, look,
    async toggle() {
      if (drawer.shows() === "glossary") drawer.shut();
      else if (able) {
        await look();
        show();
      }
    },
  };
}
