// Example sentences, and the head that shows what an example is for.

import * as api from "./api.js";
import { el } from "./dom.js";

/** Resets what belonged to the text before. */
export const afresh = () => ({ taken: "", at: 0, mate: -1, answer: -1 });

/** The state of an example: the head that shows its phenomenon is sought. */
export const taking = ({ text, second, find }) => ({ text, second: second ?? "", find: find ?? "", query: -1, ...afresh() });

/** A list of examples by phenomenon; none if there are none. */
export function examples(samples, choose) {
  if (!samples.length) return [];
  const kinds = Map.groupBy(samples.map((sample, i) => [i, sample]), ([, { group }]) => group ?? "");
  const listed = (those) => those.map(([value, { text }]) => el("option", { value, text }));
  const node = el("select", { "aria-label": "Example sentences", class: "samples", on: { change: () => choose(samples[node.value]) } },
    el("option", { value: "", text: "Examples", disabled: true, selected: true }),
    ...[...kinds].flatMap(([group, those]) => (group ? [el("optgroup", { label: group }, ...listed(those))] : listed(those))));
  return [node];
}

/**
 * Chooses the head, and the token, that show best what a state seeks.
 * @returns {Promise<string>} why there are none
 */
export async function seek({ run }, state) {
  const found = await api.json(`runs/${run}/find?what=${encodeURIComponent(state.find)}`).catch((error) => { if (error.status !== 400) throw error; return error; });
  const missed = found instanceof Error;
  const { stack, layer, head, query } = missed ? state : found;
  Object.assign(state, { find: "", stack, layer, head, ...(query === null ? {} : { query }) });
  return missed ? found.message : "";
}
