// The whole state of the page; all of it is in the address.

const LARGEST = 2 ** 31 - 1;

/** name: [name in the address, default, valid values: a pattern; of a number its maximum, and whether it is an integer] */
const FIELDS = {
  model: ["m", ""],
  text: ["x", ""],
  second: ["y", ""],
  off: ["off", [], /^\w+\.\d+\.\d+$/],
  swaps: ["sw", [], /^\w+\.\d+\..+$/], // encoder.5.river: another word at token 5
  patches: ["pa", [], /^\w+(\.\d+){3}$/], // encoder.2.5.4: after block 2, token 5 is the other text's token 4
  pins: ["pin", [], /^\w+\.\d+\.\d+$/], // heads to come back to
  units: ["un", [], /^\w+\.\d+\.\d+$/], // units of MLPs that are off
  saved: ["cp", -1], // a checkpoint of this model's run
  stack: ["in", ""],
  layer: ["l", 0],
  head: ["h", 0],
  query: ["q", -1], // none chosen
  find: ["find", ""], // choose the head that shows this best: it>pizza, induction
  colour: ["by", "weights"],
  view: ["w", "raw"],
  unshown: ["hh", [], /^\d+$/], // heads left out where all are in one picture
  surprise: ["su", "", /^[01]$/], // tokens coloured by surprisal; empty: where it costs nothing
  threshold: ["t", 0.05, { most: 1, whole: false }],
  special: ["sp", true],
  pieces: ["wp", true],
  faint: ["faint", false],
  zoom: ["z", 0, { most: 48 }],
  step: ["s", 0],
  entry: ["en", 0], // of vectors
  matrix: ["mx", "", /^W_\w$/],
  word: ["wd", 0],
  // Generate
  how: ["how", "greedy"],
  heat: ["temp", 0.8, { whole: false }],
  best: ["k", 0], // top-k: 0 is all
  mass: ["p", 1, { most: 1, whole: false }], // top-p
  beams: ["nb", 3],
  most: ["n", 12], // new tokens
  seed: ["seed", 0],
  taken: ["took", ""], // tokens the user has chosen: 5.12.7
  at: ["g", 0],
  // Layers, Lab, Compare
  donor: ["from", ""], // the sentence that patches come from
  into: ["pl", 0], // the layer after which a vector is patched
  answer: ["r", -1], // the token where the answer is read; -1: where the model predicts
  side: ["side", ""],
  other: ["o", ""], // another sentence, and a token of it
  mate: ["om", -1],
  // Compare
  rival: ["bm", ""], // another model, and its checkpoint
  rivalAt: ["bs", -1],
  // Positions
  show: ["show", "lecture"],
  place: ["pos", 20],
  shuffled: ["sh", 1], // which of many orders
  flat: ["flat", false], // without positions
  unit: ["u", "", /^\w+\.\d+\.\d+$/], // Neurons: encoder.2.117; empty: the strongest
  // Space
  texts: ["tx", ""], // one a line; empty: the model's own
  plane: ["plane", "words", /^(words|word|sentences)$/],
  point: ["pt", -1], // a point of the residual stream; -1: the last
  dot: ["dot", -1], // a word; -1: a telling one
  // Pooling
  pool: ["pool", "", /^(slides|variants|model)$/],
  review: ["rv", ""], // empty: our own
  vectors: ["vec", ""], // the id of other word vectors
  variant: ["var", 0],
  // Toy
  toy: ["toy", "first", /^(first|second)$/],
  line: ["ln", 0], // which of its texts
  start: ["seed0", 4], // the seed of its head
  // Causes
  cause: ["why", "input", /^(input|circuit|steer|probe|lens)$/],
  method: ["am", "integrated_gradients", /^\w+$/],
  edges: ["ed", 20],
  towards: ["to", ""], // texts, one a line
  away: ["aw", ""],
  strength: ["f", 4, { most: 1000, whole: false }],
  labelled: ["lb", ""], // a word and its label a line
  theme: ["theme", "", /^(light|dark)$/],
  large: ["large", false],
};

/** @returns {object} the state of an address such as #/head?l=3&h=7 */
export function read(hash, pages) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const params = new URLSearchParams(query);
  const state = { page: pages.includes(path) ? path : pages[0] };
  for (const [name, [short, usual, rule]] of Object.entries(FIELDS)) {
    state[name] = params.has(short) ? like(usual, params.get(short), rule) : usual;
  }
  return state;
}

/** The value in an address if it is valid, else the default. */
function like(usual, text, rule) {
  if (Array.isArray(usual)) return text.split(",").filter((each) => rule.test(each));
  if (typeof usual === "boolean") return text === "1";
  if (typeof usual === "string") return rule && !rule.test(text) ? usual : text;
  const value = Number(text);
  const { most = LARGEST, whole = true } = rule ?? {};
  return value >= 0 && value <= most && (!whole || Number.isInteger(value)) ? value : usual;
}

/** The address of a state, without defaults. */
export function write(state) {
  const params = new URLSearchParams();
  for (const [name, [short, usual]] of Object.entries(FIELDS)) {
    const value = state[name];
    if (String(value) === String(usual)) continue;
    params.set(short, typeof value === "boolean" ? String(Number(value)) : String(value));
  }
  const query = params.toString();
  return `#/${state.page}${query ? `?${query}` : ""}`;
}
