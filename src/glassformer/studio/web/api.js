// The server's answers. Some are kept, so that going back is at once.

const KEPT = 48;
export const MISSING = -1; // the status of what was not taken along
const kept = new Map();
const used = new Set(); // by what is on the screen
const AT_ONCE = 6; // as many as browsers ask one server
let gather = null; // while answers are gathered to be taken along: who asks then
let trial = null; // while it is only looked what would be asked: the questions
let idle = Promise.resolve(); // when nothing is gathered

/** Where the studio is one file there is no server: all that it may ask stands in the file. */
export const held = JSON.parse(document.getElementById("held")?.textContent ?? "null");

/** What the server says when it cannot: one line. */
export class Refused extends Error {
  constructor(line, status = 0) {
    super(line);
    this.status = status;
  }
}

async function fetched(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, options);
  } catch {
    throw new Refused("The studio's server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  throw new Refused(told.error ?? `The server answered ${answer.status}.`, answer.status);
}

/** Keeps the promise of an answer, and forgets it when it fails or others are wanted more. */
function keep(key, ask) {
  if (trial) {
    trial.push(key);
    return new Promise(() => {});
  }
  if (gather) return gather(key, ask);
  used.add(key);
  const known = kept.get(key);
  kept.delete(key);
  const answer = known ?? (held ? here(key) : ask());
  kept.set(key, answer);
  if (!known) answer.catch(() => kept.delete(key));
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return answer;
}

async function here(key) {
  const answer = held.answers[key];
  if (answer === undefined) throw new Refused("This page holds only what was taken along: the studio has the rest.", MISSING);
  if (answer.refused) throw new Refused(answer.refused, 400);
  if (!answer.bytes) return answer;
  return { bytes: Uint8Array.from(atob(answer.bytes), (each) => each.charCodeAt(0)), shape: answer.shape };
}

export const json = (path) => keep(path, async () => (await fetched(path)).json());

/** @returns {Promise<{bytes: Uint8Array, shape: number[]}>} */
export const bytes = (path) => keep(path, async () => {
  const answer = await fetched(path);
  const shape = answer.headers.get("X-Shape").split(",").map(Number);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), shape };
});

/** Answers to many questions, asked in one. */
export function many(path, keys) {
  let all = null;
  const ask = () => (all ??= fetched(path).then((answer) => answer.json()));
  return Promise.all(keys.map((key, i) => keep(key, async () => (await ask())[i])));
}

/** A question with a body; the same question is asked once. */
export function post(path, question) {
  const body = JSON.stringify(question);
  return keep(path + body, async () => {
    const answer = await fetched(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return answer.json();
  });
}

/** A run of a model on a text, with some heads switched off, and what else is changed. */
export const run = (model, text, second, off, more = {}) => post("runs", {
  model, text, second: second || null,
  off: off.map((each) => each.split(".")).map(([stack, layer, head]) => [stack, Number(layer), Number(head)]),
  ...more,
});

/** The next time this is asked for, the server answers: it may know more by then. */
export const again = (path) => kept.delete(path);

/** What comes is a new screen: what it uses is counted anew. */
export const turn = () => used.clear();

/** Meanwhile no new screen asks: its answers would be taken for those of the old one. */
export const quiet = () => idle;

/** Whether all that is asked here has its answer: in the studio always, in one file if it was taken along. */
export function holds(ask) {
  if (!held) return true;
  trial = [];
  try {
    ask();
    return trial.every((key) => key in held.answers);
  } finally {
    trial = null;
  }
}

/**
 * The answers that the screen was made of, as one file holds them, and those to more questions, up to a limit.
 * They are not kept: they would push out those of the screen.
 * @param {Iterable<() => Promise>} more
 * @param {{room: number, most: number, tell: (done: number, of: number) => void, signal: AbortSignal}} limits bytes, questions
 * @returns {Promise<{found: object, left: number, of: number}>} `left`: the questions that were not asked
 */
export function answers(more, limits) {
  const own = new Map([...kept].filter(([key]) => used.has(key)));
  const asks = [...more];
  const work = idle.then(() => gathered(own, asks, limits));
  idle = work.catch(() => null);
  return work;
}

async function gathered(asked, asks, { room, most, tell, signal }) {
  let [next, done, size] = [0, 0, 0];
  const weigh = (answer) => { size += JSON.stringify(plain(answer)).length; };
  const worker = async () => {
    while (next < Math.min(asks.length, most) && size < room && !signal.aborted) {
      await Promise.resolve(asks[next++]()).catch(() => null); // each answer is looked at below
      tell(++done, asks.length);
    }
  };
  gather = (key, ask) => {
    if (!asked.has(key)) {
      asked.set(key, kept.get(key) ?? ask());
      asked.get(key).then(weigh, () => null);
    }
    return asked.get(key);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker)).finally(() => { gather = null; });
  if (signal.aborted) throw new Refused("It was stopped.");
  const found = {};
  for (const [key, answer] of asked) found[key] = plain(await answer.catch(refusal));
  return { found, left: asks.length - done, of: asks.length };
}

/** A question that has no answer is refused in the file too. */
function refusal(error) {
  if (error.status !== 400) throw error;
  return { refused: error.message };
}

function plain(answer) {
  if (!(answer.bytes instanceof Uint8Array)) return answer;
  let text = "";
  for (let i = 0; i < answer.bytes.length; i += 8192) text += String.fromCharCode(...answer.bytes.subarray(i, i + 8192));
  return { bytes: btoa(text), shape: answer.shape };
}

/** A file of the server, as it is. */
export const file = async (path, options) => (await fetched(path, options)).blob();

/** The server keeps few runs: what it has dropped must be asked for again. */
export const forget = () => kept.clear();
