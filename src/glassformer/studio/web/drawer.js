// A drawer beside the page, or below it on a small screen: lessons, or the glossary.

import { el } from "./dom.js";

/** @param {HTMLElement} node @param {() => void} refit the page has another size now */
export function drawer(node, refit) {
  const title = el("h2", { id: "drawer-title", tabindex: "-1" });
  const body = el("div", { class: "drawer-body" });
  const close = el("button", { type: "button", class: "round", "aria-label": "Close", title: "Close", text: "×", on: { click: () => shut() } });
  node.replaceChildren(el("div", { class: "drawer-head" }, title, close), body);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    shut();
  });
  let opener = null; // where the focus was

  function turn(open) {
    if (node.hidden !== open) return;
    node.hidden = !open;
    document.body.classList.toggle("with-drawer", open);
    refit();
  }

  function shut() {
    const inside = node.contains(document.activeElement);
    const button = document.querySelector(`[data-opens=${node.dataset.shows}]`); // the bar may have been drawn anew
    node.dataset.shows = "";
    turn(false);
    if (inside) (opener?.isConnected ? opener : button ?? document.getElementById("page")).focus({ preventScroll: true });
  }

  return {
    body, shut,
    shows: () => node.dataset.shows || "",
    /** Opens it, or takes its content for another. */
    open(name, text) {
      if (!node.contains(document.activeElement)) opener = document.activeElement;
      node.dataset.shows = name;
      title.textContent = text;
      turn(true);
      title.focus({ preventScroll: true });
    },
  };
}
