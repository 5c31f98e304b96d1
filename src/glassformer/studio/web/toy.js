// What can one head do that a table of word pairs cannot?

import * as api from "./api.js";
import { choice, el, swap } from "./dom.js";
import { stepper } from "./head.js";
import { sheet } from "./sheets.js";

export const TOYS = ["first", "second"];
export const sheetsOf = ({ toy, start, line }) => api.json(`toy/${toy}/${start}/${toy === "first" ? 0 : line}`);

export const toy = {
  id: "toy",
  name: "Toy",
  question: "What can one head do that a table cannot?",
  lead: "The lecture's toys: the head is trained when you open the page. Each word looks at itself and at those before it (T×T) to predict one of V words (T×V).",
  caveat: "Another seed trains another head: it may use the words, the position, or both.",
  build, formless: () => true,
  *along({ state }) { for (const [name, line] of [["first", 0], ["second", 0], ["second", 1]]) yield () => sheetsOf({ ...state, toy: name, line }); },
  needs: ({ state }) => sheetsOf(state),
};

function build(app) {
  const tools = el("div", { class: "tools" });
  const cards = el("div", { class: "sheets" });
  const node = el("div", { class: "page-toy" }, tools, cards);

  async function show() {
    const { state } = app;
    const fresh = app.fresh();
    state.line = Math.min(1, state.line);
    const { sheets, words, conclusion } = await sheetsOf(state);
    if (!fresh()) return;
    const asks = (change) => !app.holds(change);
    swap(tools,
      choice("Toy", TOYS.map((name) => [name, `${name} toy`]), state.toy, (name) => app.update({ toy: name }), (name) => asks({ toy: name })),
      words.length > 1 ? choice("Text", words.map((text, i) => [i, text.join(" ")]), state.line, (line) => app.update({ line }), (line) => asks({ line })) : el("span", { class: "quiet", text: words[0].join(" ") }),
      stepper("seed", state.start, 2 ** 31 - 1, (start) => app.update({ start }), 0, (start) => asks({ start })));
    swap(cards, ...sheets.map(sheet));
    app.say(conclusion);
  }

  return { node, show };
}
