// All patches from another sentence at once: which of them brings its answer here?

import * as api from "./api.js";
import { words } from "./colour.js";
import { el, swap, visible } from "./dom.js";
import { matrix } from "./matrix.js";
import { changeOf, diverging, signed, signedLegend } from "./signed.js";

/** A button, and the heat map in its holder: layers × tokens; a click applies that patch. */
export function sweeper(app, holder) {
  let asked = ""; // the sweep that was asked for: it is computed on demand only
  let side = "";
  const cells = matrix({ name: "Recovered by each patch: rows are tokens, columns are layers", say: signed,
    pick: (token, layer) => {
      const place = `${side}.${layer}.${token}.`;
      app.update({ patches: [...app.state.patches.filter((each) => !each.startsWith(place)), `${place}${token}`], query: token, mate: token, into: layer });
    } });
  const button = el("button", { type: "button", class: "plain", "data-do": "sweep", text: "Try every patch", asks: true, title: "Activation patching at every layer and token, each alone" });
  const note = el("p", { class: "quiet", role: "note" });
  const scale = el("div", {});
  const fit = el("div", { class: "fit" }, cells.node);
  const node = el("div", { class: "sweep" }, note, fit, scale);

  /** Show the sweep of these runs if it was asked for. */
  async function show(base, other, at, token, fresh) {
    side = at;
    const path = `runs/${base.run}/sweep/${other.run}/${side}/${token}`;
    button.onclick = () => { asked = path; app.update({}); };
    if (asked !== path) return;
    holder.append(node);
    const sweep = await api.json(path).catch((error) => { if (error.status !== 400) throw error; return error; });
    if (!fresh()) return;
    [fit.hidden, scale.hidden] = Array(2).fill(sweep instanceof Error);
    note.textContent = sweep instanceof Error ? sweep.message
      : `How much of “${visible(sweep.answer)}” over “${visible(sweep.other)}” each patch brings back: ${sweep.corrupted.toFixed(2)} here, ${sweep.clean.toFixed(2)} in the other sentence.`;
    if (sweep instanceof Error) return;
    const tokens = base.tokens.queries[side];
    const values = tokens.flatMap((_, t) => sweep.recovered.map((row) => row[t]));
    swap(scale, signedLegend(app.theme(), "recovered"));
    cells.show({ bytes: Uint8Array.from(values, (value) => 128 + Math.round(127 * Math.max(-1, Math.min(1, value)))), values,
      rows: tokens.map(({ text, special }) => ({ text: visible(text), special })), columns: sweep.recovered.map((_, layer) => ({ text: String(layer), special: false })),
      chosen: app.state.query, zoom: 0, stretch: true, palette: words(diverging(app.theme())), value: changeOf });
    cells.view.canvas.dataset.drawn = [path, app.theme()].join();
  }

  return { button, node, show };
}
