// How did it learn this? One sentence through the checkpoints of a run.

import * as api from "./api.js";
import { colours, words } from "./colour.js";
import { el, key, number, swap } from "./dom.js";
import { everyHead, weights, whichHead } from "./head.js";
import { matrixCard } from "./matrix.js";
import { pane } from "./pane.js";
import { density, legend, rangeOf } from "./picture.js";
import { predictions } from "./predictions.js";
import { groups, sides } from "./tokens.js";

const AGAIN = 2000; // milliseconds between two requests while a run is training
const EDGE = { left: 44, right: 14, top: 10, bottom: 22 }; // CSS pixels around the curve

export const training = {
  id: "training",
  name: "Training",
  question: "How did it learn this?",
  lead: "The loss as it fell, and the sentence as the model read it at each checkpoint that was kept: move the slider.",
  caveat: "Only the newest checkpoints and the best are kept, unless train.keep_checkpoints says more.",
  build, along, needs: ({ run, state: { stack, layer, head } }) => weights(run, [stack, layer, head]),
};

function build(app) {
  const curve = chart();
  const slider = el("input", { type: "range", min: "0", step: "1", "aria-label": "Checkpoint", on: { input: () => app.update({ saved: steps[Number(slider.value)] }) } });
  const at = el("output", {});
  const tools = el("div", { class: "tools" });
  const [then, last] = ["Weights at this checkpoint", "Weights of the model"].map((label) =>
    matrixCard(label, { name: `${label}: rows look, columns are looked at`, pick: (query) => app.update({ query }) }));
  const right = el("div", { class: "right" });
  const node = el("div", { class: "page-training" },
    el("section", { class: "card", "aria-label": "Loss" },
      key(["s0", "loss on what it learns from"], ["s1", "on what is held out"]), curve.node),
    el("div", { class: "tools" }, el("label", { class: "field slide" }, "checkpoint", slider, at), tools), then.node, last.node, right);
  const none = el("section", { class: "card none" }, el("h2", { text: "This model came without its training" }),
    el("p", { text: "Open the folder of a run, with its metrics and checkpoints: glassformer studio runs/NAME" }));
  const holder = el("div", { class: "holder" });
  let steps = [];
  let waiting = 0;

  app.checkpoint = (by) => {
    const now = steps.indexOf(app.state.saved);
    const to = steps[Math.max(0, Math.min(steps.length - 1, (now < 0 ? steps.length : now) + by))];
    if (to !== undefined) app.update({ saved: to });
  };

  async function show() {
    const { state, run, before, model, theme } = app;
    const fresh = app.fresh();
    const able = model.steps !== null;
    if (holder.firstElementChild !== (able ? node : none)) holder.replaceChildren(able ? node : none);
    if (!able) { app.say("no training"); return; }
    clearTimeout(waiting);
    const progress = await curves(model);
    if (!fresh()) return;
    steps = progress.steps;
    const chosen = steps.indexOf(state.saved);
    slider.max = String(Math.max(0, steps.length - 1));
    slider.value = String(chosen < 0 ? steps.length - 1 : chosen);
    slider.disabled = !steps.length || api.held !== null;
    const own = progress.shown === null ? "the model" : `model, step ${progress.shown}`;
    const step = state.saved < 0 ? progress.shown : state.saved;
    at.textContent = state.saved < 0 ? own : `step ${state.saved}`;
    curve.show({ ...progress, at: step ?? -1 });
    curve.canvas.dataset.drawn = [model.id, progress.losses.length, state.saved, theme()].join();
    swap(tools, ...whichHead(app), el("span", { class: "quiet", text: progress.ended ? "the run has ended" : "the run is training: this page follows it" }));
    const { stack, layer, head } = state;
    const runs = await bothRuns(app);
    const pictures = await Promise.all(runs.map((each) => weights(each, [stack, layer, head])));
    if (!fresh()) return;
    swap(right, predictions(run, before, state.query, model));
    last.node.hidden = state.saved < 0;
    [then.title.textContent, last.title.textContent] = [state.saved < 0 ? named(own) : `After step ${state.saved}`, named(own)];
    for (const [i, part] of [then, last].entries()) {
      if (part.node.hidden) continue;
      const [rows, columns] = sides(runs[i], stack).map((tokens) => groups(tokens, { special: true, pieces: true }));
      const { bytes, power } = pictures[i];
      const range = rangeOf(bytes, power);
      swap(part.foot, legend(theme(), state.faint, "0", range.end, "weight"));
      part.cells.show({ bytes, power, rows, columns, chosen: state.query < rows.length ? state.query : -1, zoom: 0, palette: words(colours(theme(), state.faint, range)) });
      part.cells.view.canvas.dataset.drawn = [runs[i].run, stack, layer, head, theme(), i ? -1 : state.saved].join();
    }
    const loss = step === null ? undefined : nearest(progress.losses, step);
    app.say(`${at.textContent}${loss === undefined ? "" : `, loss ${number(loss)}`}`);
    if (!progress.ended && !api.held) waiting = setTimeout(() => { if (fresh()) { api.again(`models/${model.id}/training`); api.again("models"); app.update({}); } }, AGAIN);
  }

  return { node: holder, show };
}

const curves = ({ id }) => api.json(`models/${id}/training`);

/** The run of the model itself, not of a checkpoint. */
export const ownRun = ({ model, state }) => api.run(model.id, state.text, state.second, []);

/** The run at the checkpoint, and the model's own. */
const bothRuns = async (app) => [app.run, app.state.saved < 0 ? app.run : await ownRun(app)];

function* along(app) {
  if (app.model.steps === null) return;
  yield () => curves(app.model);
  for (const at of everyHead(app)) yield async () => Promise.all((await bothRuns(app)).map((each) => weights(each, at)));
}

const named = (text) => text[0].toUpperCase() + text.slice(1);
const nearest = (losses, step) => losses.findLast(([at]) => at <= step)?.[1];

/** Loss by step: training as a line, validation as points; the chosen step is marked. */
function chart() {
  let now = null;
  const view = pane(draw, { role: "img", "aria-label": "Loss by step", class: "losses" });

  function draw(pen, { wide, high }) {
    if (!now || !now.losses.length) return;
    const k = density();
    const style = getComputedStyle(view.node);
    const all = [...now.losses, ...now.evaluations];
    const most = Math.max(...all.map(([step]) => step), 1);
    const [low, top] = [Math.min(...all.map(([, loss]) => loss)), Math.max(...all.map(([, loss]) => loss))];
    const x = (step) => k * EDGE.left + (step / most) * (wide - k * (EDGE.left + EDGE.right));
    const y = (loss) => k * EDGE.top + ((top - loss) / (top - low || 1)) * (high - k * (EDGE.top + EDGE.bottom));
    pen.font = `${12 * k}px ${style.fontFamily}`;
    pen.textBaseline = "middle";
    pen.fillStyle = style.getPropertyValue("--quiet").trim();
    pen.textAlign = "right";
    for (const loss of [low, (low + top) / 2, top]) pen.fillText(number(loss), x(0) - 6 * k, y(loss));
    pen.textAlign = "center";
    for (const step of [0, Math.round(most / 2), most]) pen.fillText(String(step), x(step), high - 8 * k);
    const line = (points, colour, width) => {
      pen.strokeStyle = colour;
      pen.lineWidth = width * k;
      pen.beginPath();
      points.forEach(([step, loss], i) => (i ? pen.lineTo(x(step), y(loss)) : pen.moveTo(x(step), y(loss))));
      pen.stroke();
    };
    line(now.losses, style.getPropertyValue("--line").trim(), 1.75);
    if (now.evaluations.length > 1) line(now.evaluations, style.getPropertyValue("--warm").trim(), 1.5);
    pen.fillStyle = style.getPropertyValue("--warm").trim();
    for (const [step, loss] of now.evaluations) pen.fillRect(x(step) - 3 * k, y(loss) - 3 * k, 6 * k, 6 * k);
    if (now.at >= 0) line([[now.at, low], [now.at, top]], style.getPropertyValue("--accent").trim(), 1);
    pen.fillStyle = style.getPropertyValue("--accent").trim();
    for (const step of now.steps) pen.fillRect(x(step) - 2 * k, high - k * EDGE.bottom + 2 * k, 4 * k, 4 * k);
  }

  return {
    node: view.node, canvas: view.canvas,
    show(what) {
      now = what;
      view.canvas.shows = [["on what it learns from", what.losses], ["on what is held out", what.evaluations]].map(([name, points]) => ({ // for export
        name: `Loss ${name}`, rows: points.map(([step]) => `step ${step}`), columns: ["loss"], values: points.map(([, loss]) => loss),
      }));
      const loss = what.losses.at(-1);
      view.node.setAttribute("aria-label", loss ? `Loss by step: from ${number(what.losses[0][1])} to ${number(loss[1])} at step ${loss[0]}` : "Loss by step: none yet");
      view.resize(view.node.clientWidth, view.node.clientHeight);
    },
  };
}
