// Helpers to build pages. Text is always inserted as text, never as markup.

import { held } from "./api.js";

const MATHML = "http://www.w3.org/1998/Math/MathML";

/**
 * An element: `class`, `text`, `on` (listeners) and `vars` (CSS variables) are special,
 * `true` and `false` set or leave out an attribute, everything else is an attribute.
 * `asks`: it needs the server, and is disabled in an exported page.
 * @returns {HTMLElement}
 */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "asks") node.toggleAttribute("disabled", held !== null || node.disabled);
    else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (name === "vars") for (const [key, to] of Object.entries(value)) node.style.setProperty(`--${key}`, to);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A MathML element; strings among the children become its text. */
export function math(tag, ...children) {
  const node = document.createElementNS(MATHML, tag);
  node.append(...children);
  return node;
}

/** A table with a caption for screen readers; the first cell of each row is its heading. */
export function table(caption, heads, rows, props = {}) {
  const cell = (tag, scope) => (content) =>
    content instanceof Node && content.tagName === "TD" ? content
      : el(tag, { scope }, ...(content instanceof Node ? [content] : [String(content)]));
  return el("table", props,
    el("caption", { class: "unseen", text: caption }),
    el("thead", {}, el("tr", {}, ...heads.map(cell("th", "col")))),
    el("tbody", {}, ...rows.map(([first, ...rest]) =>
      el("tr", {}, cell("th", "row")(first), ...rest.map(cell("td"))))));
}

/** A row of buttons, one pressed. `asks`: whether a value's button needs the server. */
export function choice(label, options, chosen, choose, asks = () => false) {
  return el("div", { class: "choice", role: "group", "aria-label": label },
    ...options.map(([value, title, hint]) => el("button", {
      type: "button", "aria-pressed": String(value === chosen), title: hint, text: title, asks: asks(value),
      on: { click: () => choose(value) },
    })));
}

/** A button that keeps the focus when it can do nothing: a disabled one would lose it. */
export function action(text, able, act, props = {}) {
  return el("button", { type: "button", text, "aria-disabled": able ? null : "true", ...props, on: { click: () => { if (able) act(); } } });
}

/** A checkbox with its label. */
export function tick(label, checked, change, hint) {
  const box = el("input", { type: "checkbox", checked, on: { change: () => change(box.checked) } });
  return el("label", { class: "tick", title: hint }, box, label);
}

/**
 * Replaces the children. Unchanged ones stay, so that no click is lost between press and release,
 * and the focus is kept.
 */
export function swap(holder, ...children) {
  const open = () => [...holder.querySelectorAll("button, input, select, a, [tabindex]")];
  const at = open().indexOf(document.activeElement);
  const fresh = children.filter((child) => child !== null);
  fresh.forEach((child, i) => {
    const old = holder.children[i];
    if (!old) holder.append(child);
    else if (!old.isEqualNode(child)) old.replaceWith(child);
  });
  while (holder.children.length > fresh.length) holder.lastElementChild.remove();
  if (at >= 0 && !holder.contains(document.activeElement)) open()[at]?.focus({ preventScroll: true });
}

/** A list to choose from: [value, title] each. */
export function select(options, chosen, choose, props = {}) {
  const node = el("select", { ...props, on: { change: () => choose(node.value) } },
    ...options.map(([value, text]) => el("option", { value, text, selected: value === chosen })));
  return node;
}

/** Two or three digits, with a real minus sign. */
export function number(value) {
  if (value === null || value === undefined) return "−∞";
  const size = Math.abs(value);
  if (size < 0.005) return "0.00";
  return value.toFixed(size >= 99.5 ? 0 : size >= 9.995 ? 1 : 2).replace("-", "−");
}

/** A probability or weight. */
export function share(value) {
  return value > 0 && value < 0.005 ? "<0.01" : value.toFixed(2);
}

/** A number in three digits after the point. */
export const exact = (value) => value.toFixed(3).replace("-", "−");

/** A table cell: a rounded number; the export has all digits. */
export const valued = (value, say = share, props = {}) => el("td", { ...props, "data-value": value, text: say(value) });

/** What the marks in a picture mean: [its class, text] each. */
export const key = (...marks) => el("p", { class: "key quiet" }, ...marks.map(([kind, text]) => el("span", {}, el("i", { class: kind }), text)));

/** Large counts: 22.7 M. */
export function count(value) {
  for (const [size, sign] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= size) return (value / size).toPrecision(3) + sign;
  }
  return String(value);
}

/** Makes lone spaces and line ends visible. */
export function visible(text) {
  return text.trim() === "" ? text.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅" : text;
}
