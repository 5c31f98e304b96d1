// One table of 256 colours for light, one for dark. Lightness (OKLab) falls or rises in even steps,
// so equal steps of a weight look equal, also to colour-blind eyes; colour 0 is the paper.

const STOPS = {
  light: ["#ffffff", "#a9cdea", "#5b8fd0", "#4550a8", "#33185f"],
  dark: ["#14181f", "#234a80", "#3f8f9a", "#a9cc7d", "#fff6c4"],
};

const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const encoded = (c) => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);

function oklab(hex) {
  const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function bytes([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ].map((c) => Math.round(255 * encoded(Math.min(1, Math.max(0, c)))));
}

/** `count` × [red, green, blue]; each stop stands where its lightness falls on an even scale. */
export function even(stops, count = 256) {
  const labs = stops.map(oklab);
  const [first, last] = [labs[0][0], labs[labs.length - 1][0]];
  const places = labs.map(([L]) => (L - first) / (last - first));
  return Array.from({ length: count }, (_, i) => {
    const at = i / (count - 1);
    const k = Math.min(labs.length - 2, places.findLastIndex((place) => place <= at));
    const t = (at - places[k]) / (places[k + 1] - places[k]);
    return bytes(labs[k].map((x, axis) => x + t * (labs[k + 1][axis] - x)));
  });
}

const TABLES = { light: even(STOPS.light), dark: even(STOPS.dark) };

/**
 * The table in use. `faint` spends more of it on small weights (their square roots).
 * @param {{power?: number, top?: number}} range a byte stands for the weight (byte / 255) ** power; weights from `top` on have the last colour
 */
export function colours(theme, faint = false, { power = 1, top = 1 } = {}) {
  const plain = TABLES[theme];
  if (!faint && power === 1 && top === 1) return plain;
  return plain.map((_, i) => {
    const part = Math.min(1, (i / 255) ** power / top);
    return plain[Math.round((faint ? Math.sqrt(part) : part) * 255)];
  });
}

/** The same table as the words that ImageData is made of. */
export function words(table) {
  return Uint32Array.from(table, ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0);
}

/** Black or white, whichever is read better on this colour. */
export function ink([r, g, b]) {
  const light = 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  return light > 0.18 ? "#000" : "#fff";
}

export const css = ([r, g, b]) => `rgb(${r} ${g} ${b})`;
