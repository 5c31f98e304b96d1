// The server's answers. Some are kept, so that going back is at once.

const KEPT = 48;
const kept = new Map();

/** What the server says when it cannot: one line. */
export class Refused extends Error {}

async function fetched(path, options) {
  let answer;
  try {
    answer = await fetch(`api/${path}`, options);
  } catch {
    throw new Refused("The studio's server does not answer. Is it still running?");
  }
  if (answer.ok) return answer;
  const told = await answer.json().catch(() => ({}));
  const refused = new Refused(told.error ?? `The server answered ${answer.status}.`);
  refused.status = answer.status;
  throw refused;
}

/** Keeps the promise of an answer, and forgets it when it fails or others are wanted more. */
function keep(key, ask) {
  const known = kept.get(key);
  kept.delete(key);
  const answer = known ?? ask();
  kept.set(key, answer);
  if (!known) answer.catch(() => kept.delete(key));
  if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  return answer;
}

export const json = (path) => keep(path, async () => (await fetched(path)).json());

/** @returns {Promise<{bytes: Uint8Array, shape: number[]}>} */
export const bytes = (path) => keep(path, async () => {
  const answer = await fetched(path);
  const shape = answer.headers.get("X-Shape").split(",").map(Number);
  return { bytes: new Uint8Array(await answer.arrayBuffer()), shape };
});

/** A question with a body; the same question is asked once. */
export function post(path, question) {
  const body = JSON.stringify(question);
  return keep(path + body, async () => {
    const answer = await fetched(path, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return answer.json();
  });
}

/** A run of a model on a text, with some heads switched off. */
export const run = (model, text, second, off) => post("runs", {
  model, text, second: second || null,
  off: off.map((each) => each.split(".")).map(([stack, layer, head]) => [stack, Number(layer), Number(head)]),
});

/** The server keeps few runs: what it has dropped must be asked for again. */
export const forget = () => kept.clear();
