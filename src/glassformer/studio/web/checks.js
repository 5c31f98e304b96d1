// Checks of the lessons: each looks at the screen, and returns true or what is not right yet.

import { share, visible } from "./dom.js";
import { headName } from "./head.js";
import { sides } from "./tokens.js";

const same = (one, other) => one.toLowerCase() === other.toLowerCase();

/** The likeliest words where the model answers: at the last mask, or after the last token. */
const answers = ({ predictions: { at } }) => at.at(-1)?.top ?? [];

/** Whether a word has become less likely; without a word, the answer before the change. */
function fell({ before, run }, text) {
  if (!before) return "nothing is changed.";
  const then = answers(before).find((each) => (text ? same(each.text, text) : true));
  if (!then) return `“${text}” was not among the answers before.`;
  const now = answers(run).find(({ id }) => id === then.id)?.p ?? 0; // unlisted: less than all listed
  return now < then.p || `“${visible(then.text)}” did not fall: ${share(then.p)} before, ${share(now)} now.`;
}

export const CHECKS = {
  page: ({ state }, id) => state.page === id || `this is the page ${state.page}.`,
  setting: ({ state }, name, value) => String(state[name]) === value || "that is something else.",
  token({ run, state: { stack, query } }, text) {
    const chosen = sides(run, stack)[0][query]?.text ?? "";
    return same(chosen, text) || `“${visible(chosen)}” is chosen.`;
  },
  fell,
  /** The head that was chosen when the step was opened is off, and a word fell. */
  off(screen, text) {
    const { stack, layer, head } = screen.opened;
    const { off } = screen.state;
    if (!off.includes(`${stack}.${layer}.${head}`)) return off.length ? `that is another head: switch off ${headName(layer, head)}.` : `${headName(layer, head)} is still on.`;
    return fell(screen, text);
  },
  answer({ run }, text) {
    const best = answers(run)[0]?.text ?? "";
    return same(best, text) || `the answer is “${visible(best)}”.`;
  },
  translated: ({ run: { predictions: { text } } }, word) => (text ?? "").split(/[^\p{L}]+/u).some((each) => same(each, word)) || `the translation is “${text}”.`,
  took: ({ state }) => state.taken !== "" || "no candidate is chosen.",
};
