// What the chosen token attends to, as ribbons between the rails; and the sweep through the drawing.

import { svg } from "./charts.js";
import { el } from "./dom.js";

const LEAST = 0.02; // weights below are not drawn
const THICKEST = 9; // CSS pixels
const BEND = 40; // below the encoder
const SWEEP = 3000; // milliseconds

/** The rows below the tokens, those of one layer together. */
const layers = ({ rows }) => [...Map.groupBy(rows.slice(1), ({ part, layer }) => (layer < 0 ? part : layer)).values()];

const still = matchMedia("(prefers-reduced-motion: reduce)");

const curve = (from, to) => {
  const middle = (from.y + to.y) / 2;
  return `M${from.x} ${from.y}C${from.x} ${middle} ${to.x} ${middle} ${to.x} ${to.y}`;
};

/** From the end of the encoder, through the gap between the towers at `x`, into the decoder. */
const across = (from, to, x) => `M${from.x} ${from.y}C${from.x} ${from.y + BEND} ${x} ${from.y + BEND} ${x} ${(from.y + to.y) / 2}S${x} ${to.y} ${to.x} ${to.y}`;

const ribbon = (kind, d, weight) => svg("path", { class: `ribbon ${kind}`, d, "stroke-width": (1 + (THICKEST - 1) * weight).toFixed(2), "stroke-opacity": (0.2 + 0.6 * weight).toFixed(3) });

/**
 * @param {object[]} towers
 * @param {{side: string, query: number, layer: number}} chosen
 * @param {{own: number[][], cross: number[][]|null}} weights of the chosen token in each layer
 */
export function ribbons(towers, { side, query, layer }, { own, cross }) {
  const tower = towers.find(({ name }) => name === side);
  const paths = own.flatMap((weights, l) => {
    const row = tower.rowAt("attention", l);
    if (!row) return []; // folded
    const to = tower.place(row, query);
    return weights.flatMap((weight, t) => {
      if (weight < LEAST || t === query) return [];
      const from = tower.place(row, t);
      return [ribbon("", curve({ x: from.x, y: from.top }, { x: to.x, y: to.bottom }), weight)];
    });
  });
  return [picture("ribbons", paths), picture("ribbons crossings", cross ? crossings(towers, tower.place(tower.rowAt("cross", layer), query), cross[layer]) : [])];
}

const picture = (kind, paths) => svg("svg", { class: kind, "aria-hidden": "true" }, ...paths);

/** From the encoder's last row into a decoder's cell, by their weights. */
function crossings([encoder, decoder], to, weights) {
  const [first, second] = [encoder.box(), decoder.box()];
  const end = { x: to.x, y: to.bottom - 3 }; // below the layer's picture
  return weights.flatMap((weight, t) => {
    if (weight < LEAST) return [];
    const { x, bottom: y } = encoder.place(encoder.rows.at(-1), t);
    const d = second.top > first.top ? curve({ x, y }, end) : across({ x, y }, end, (first.right + second.left) / 2);
    return [ribbon("crossing", d, weight)];
  });
}

/**
 * A curtain over what is not computed yet. It falls in three seconds, one tower after the other;
 * who wants no motion steps from layer to layer.
 */
export function sweep(scroller, towers, { change, say }) {
  let curtains = [];
  let running = null; // stops the sweep
  let step = -1;

  function cover() {
    clear();
    curtains = towers().map(({ rows, standing }) => {
      const curtain = el("div", { class: "curtain" });
      curtain.style.top = `${rows[0].high}px`;
      standing.append(curtain);
      return curtain;
    });
  }

  function clear() {
    for (const curtain of curtains) curtain.remove();
    curtains = [];
  }

  function end() {
    running?.();
    running = null;
    step = -1;
    clear();
    change();
  }

  function play() {
    cover();
    const each = SWEEP / curtains.length;
    const falls = curtains.map((curtain, i) => curtain.animate([{ transform: "translateY(0)" }, { transform: "translateY(100%)" }], { duration: each, delay: i * each, fill: "both" }));
    let frame = 0;
    const follow = () => {
      const part = Math.min(1, Number(falls[0].timeline.currentTime - falls[0].startTime) / SWEEP || 0);
      scroller.scrollTop = (part * curtains.length % 1 || Number(part === 1)) * (scroller.scrollHeight - scroller.clientHeight);
      frame = requestAnimationFrame(follow);
    };
    running = () => { cancelAnimationFrame(frame); for (const fall of falls) fall.cancel(); };
    falls[falls.length - 1].finished.then(end, () => null);
    change();
    follow();
  }

  /** Uncovers the next layer. */
  function next() {
    const all = towers().flatMap((tower, i) => layers(tower).map((rows) => ({ tower, rows, i })));
    step += 1;
    if (step >= all.length) return end();
    if (step === 0) cover();
    const { tower, rows: [first, ...more], i } = all[step];
    const last = more.at(-1) ?? first;
    curtains.forEach((curtain, n) => { curtain.hidden = n < i; });
    curtains[i].style.top = `${last.top + last.high}px`;
    const bottom = tower.place(last, 0).bottom - scroller.scrollTop;
    if (bottom > scroller.clientHeight || bottom < 0) scroller.scrollTop += bottom - scroller.clientHeight / 2;
    say(first.layer < 0 ? first.title : `Layer ${first.layer}`);
    return change();
  }

  return {
    act: () => { if (running) end(); else if (still.matches) next(); else play(); },
    plays: () => running !== null,
    stop: () => { if (running || step >= 0) end(); },
    name: () => (still.matches ? (step < 0 ? "Step through" : "Next layer") : running ? "Stop" : "Play"),
  };
}
