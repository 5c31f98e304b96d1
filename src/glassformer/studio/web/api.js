// Requests to the server, with a small cache.

const KEPT = 48;
export const MISSING = -1; // status: not in the exported file
export const CANCELLED = -2; // status: stopped by the user
const SESSION = Math.random().toString(36).slice(2);
const open = new Map(); // requests without an answer: by name, what stops them
let asked = 0;
const kept = new Map();
const used = new Set(); // by what is on the screen
const AT_ONCE = 6; // browsers' limit per server
let gather = null; // while answers are gathered for export: handles requests
let trial = null; // during a dry run: the requests
let idle = Promise.resolve(); // resolves when no export is running

/** The answers in an exported file, which has no server. */
export const held = JSON.parse(document.getElementById("held")?.textContent ?? "null");

/** An error of the server, in one line. */
export class Refused extends Error {
  constructor(line, status = 0) {
    super(line);
    this.status = status;
  }
}

async function fetched(path, options = {}) {
  const [name, stop] = [`${SESSION}-${++asked}`, new AbortController()];
  let answer;
  open.set(name, stop);
  try {
    answer = await fetch(`api/${path}`, { ...options, signal: stop.signal, headers: { ...options.headers, "X-Job": name } });
  } catch {
    throw stop.signal.aborted ? new Refused("Cancelled.", CANCELLED) : new Refused("The studio's server does not answer. Is it still running?");
  } finally {
    open.delete(name);
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(body.error ?? `The server answered ${answer.status}.`, answer.status);
}

/** How far the oldest open request is: {unit, done, of}; null if there is none, or nothing is known yet. */
export async function progress() {
  const [name] = open.keys();
  const answer = name ? await fetch(`api/jobs/${name}`).catch(() => null) : null;
  const now = answer?.ok ? await answer.json() : null;
  return now?.of ? now : null;
}

/** Stops all open requests: the server stops computing. */
export function cancel() {
  for (const stop of open.values()) stop.abort();
}

/** Caches the promise of an answer; drops failed and old ones. */
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
  if (answer === undefined) throw new Refused("This page holds only what was exported: the studio has the rest.", MISSING);
  if (answer.refused) throw new Refused(answer.refused, 400);
  if (!answer.bytes) return answer;
  return { bytes: Uint8Array.from(atob(answer.bytes), (each) => each.charCodeAt(0)), shape: answer.shape, power: answer.power };
}

export const json = (path) => keep(path, async () => (await fetched(path)).json());

/** @returns {Promise<{bytes: Uint8Array, shape: number[], power: number}>} a weight is (byte / 255) ** power */
export const bytes = (path) => keep(path, async () => {
  const answer = await fetched(path);
  const shape = answer.headers.get("X-Shape").split(",").map(Number);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), shape, power: Number(answer.headers.get("X-Power")) };
});

/** Many answers from one request. */
export function many(path, keys) {
  let all = null;
  const ask = () => (all ??= fetched(path).then((answer) => answer.json()));
  return Promise.all(keys.map((key, i) => keep(key, async () => (await ask())[i])));
}

/** A POST request; equal requests are sent once. */
export function post(path, question) {
  const body = JSON.stringify(question);
  return keep(path + body, async () => {
    const answer = await fetched(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return answer.json();
  });
}

/** A run of a model on a text, with its interventions. */
export const run = (model, text, second, off, more = {}) => post("runs", {
  model, text, second: second || null,
  off: off.map((each) => each.split(".")).map(([stack, layer, head]) => [stack, Number(layer), Number(head)]),
  ...more,
});

/** Drops a cached answer that may be out of date. */
export const again = (path) => kept.delete(path);

/** A new screen starts: forget what the last one used. */
export const turn = () => used.clear();

/** Wait before drawing a new screen: its requests would mix with the export's. */
export const quiet = () => idle;

/** Whether all that `ask` requests is available: in the studio always, in a file if it was exported. */
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
 * The answers of the screen and of more requests, up to a limit, in the form of an exported file.
 * They are not cached: they would displace those of the screen.
 * @param {Iterable<() => Promise>} more
 * @param {{room: number, most: number, tell: (done: number, of: number) => void, signal: AbortSignal}} limits bytes, requests
 * @returns {Promise<{all: object, left: number, of: number}>} `left`: requests not sent
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
      await Promise.resolve(asks[next++]()).catch(() => null); // errors are handled below
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
  const all = {};
  for (const [key, answer] of asked) all[key] = plain(await answer.catch(refusal));
  return { all, left: asks.length - done, of: asks.length };
}

/** A refused request is refused in the file, too. */
function refusal(error) {
  if (error.status !== 400) throw error;
  return { refused: error.message };
}

function plain(answer) {
  if (!(answer.bytes instanceof Uint8Array)) return answer;
  let text = "";
  for (let i = 0; i < answer.bytes.length; i += 8192) text += String.fromCharCode(...answer.bytes.subarray(i, i + 8192));
  return { bytes: btoa(text), shape: answer.shape, power: answer.power };
}

/** A file from the server. */
export const file = async (path, options) => (await fetched(path, options)).blob();

/** Empties the cache: the server has dropped a run. */
export const forget = () => kept.clear();
