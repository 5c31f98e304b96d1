// Take it away: the screen as a picture, a table, a page of its own, a link, or Python.

import * as api from "./api.js";
import { el, swap } from "./dom.js";
import { toSvg } from "./svg.js";

const SHARP = 2; // pixels of a PNG for each on the screen
const MOST = 4_000_000; // bytes of heads that a page takes along besides those on the screen

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function png(node) {
  const { text, width, height } = toSvg(node);
  const drawn = new Image();
  drawn.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await drawn.decode();
  const canvas = el("canvas", { width: width * SHARP, height: height * SHARP });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(drawn, 0, 0, canvas.width, canvas.height);
  const origin = node.getBoundingClientRect();
  for (const each of node.querySelectorAll("canvas")) { // pixels as they are, not drawn again
    const box = each.getBoundingClientRect();
    if (!each.shows || !each.width || !each.height || !each.checkVisibility()) continue;
    pen.drawImage(each, Math.round(SHARP * (box.x - origin.x)), Math.round(SHARP * (box.y - origin.y)), Math.round(SHARP * box.width), Math.round(SHARP * box.height));
  }
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

/** A cell of CSV; what a spreadsheet would take for a formula is given as text. */
function quoted(value) {
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The pictures' values; of a page without pictures, its tables and vectors. */
function csv(node) {
  const shown = [...node.querySelectorAll("canvas")].flatMap((canvas) => (canvas.checkVisibility() && canvas.shows) || []);
  const rows = shown.flatMap(({ name, bytes, rows: down, columns, value }) => Array.from(bytes, (byte, i) => {
    const [r, c] = [Math.floor(i / columns.length), i % columns.length];
    return [name, r, down[r], c, columns[c], value(byte)];
  }));
  if (!shown.length) {
    for (const table of node.querySelectorAll("table")) {
      const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
      for (const [r, row] of [...table.tBodies[0].rows].entries()) {
        for (const [c, cell] of [...row.cells].entries()) {
          if (c && heads[c]) rows.push([table.caption.textContent, r, row.cells[0].textContent, c, heads[c], cell.textContent]);
        }
      }
    }
  }
  for (const vector of shown.length ? [] : node.querySelectorAll(".vector")) {
    const name = vector.querySelector(".name").textContent;
    [...vector.querySelectorAll(".cell")].forEach((cell, i) => rows.push([name, 0, name, i, i, cell.textContent]));
  }
  const head = ["picture", "row", "row name", "column", "column name", "value"];
  return [head, ...rows].map((row) => row.map(quoted).join(",")).join("\r\n");
}

/** One file that needs no server: the studio's pages, and what they were answered. */
async function standalone(app) {
  const { run, before, page, state } = app;
  const mine = [run, before].filter(Boolean).map((each) => `runs/${each.run}/`);
  const held = await api.answers((key) => mine.some((start) => key.startsWith(start)), whole(app));
  const used = new Set([app.model.id, ...Object.keys(held).filter((key) => key.includes("{")).map((key) => JSON.parse(key.slice(key.indexOf("{"))).model)]);
  held.models = { models: app.models.filter(({ id }) => used.has(id)) };
  const pages = [...app.seen];
  const data = JSON.stringify({ address: app.address({ ...state, page }), pages, answers: held });
  const shell = await (await api.file("shell")).text();
  return shell.replace('id="held">null<', () => `id="held">${data.replaceAll("<", "\\u003c")}<`);
}

/** Every head of the stack in sight, where they are few or small enough. */
function whole({ run, state }) {
  const { name, layers, heads, rows, columns } = run.stacks.find((each) => each.name === state.stack);
  if (!["map", "head"].includes(state.page) || layers * heads * rows * columns > MOST) return [];
  return Array.from({ length: layers * heads }, (_, n) => `runs/${run.run}/head/${name}/${Math.floor(n / heads)}/${n % heads}?view=raw`);
}

/** The Python that shows the same: what was run comes from the server, the page from here. */
async function python({ run, state, wrote }) {
  if (state.page === "generate" && wrote) return (await api.json(`writings/${wrote}/python`)).code;
  const { code } = await api.json(`runs/${run.run}/python`);
  const page = state.page === "map" ? "map" : "head";
  return `${code}\ntrace.view("${page}", stack="${state.stack}", layer=${state.layer}, head=${state.head}, token=${state.query})\n`;
}

/** @param {HTMLDialogElement} dialog */
export async function take(app, dialog) {
  const node = document.getElementById("page");
  const name = `glassformer-${app.state.page}`;
  const told = el("p", { class: "quiet", role: "status" });
  const code = el("pre", { class: "code", tabindex: "0", "aria-label": "Python" });
  const button = (text, hint, act) => el("button", { type: "button", class: "plain", title: hint, text, on: { click: async () => {
    try {
      told.textContent = await act() ?? `${text}: done.`;
    } catch (error) {
      told.textContent = error.message;
    }
  } } });
  const copy = (text, what) => navigator.clipboard.writeText(text).then(() => `${what} copied.`, () => `Copying is not allowed here: mark it and copy it by hand.`);
  const files = [
    button("PNG", "A picture, two pixels for each on the screen", async () => save(await png(node), `${name}.png`)),
    button("SVG", "A picture of shapes and words, for papers and slides", () => save(new Blob([toSvg(node).text], { type: "image/svg+xml" }), `${name}.svg`)),
    button("CSV", "The numbers, one a line", () => save(new Blob([csv(node)], { type: "text/csv" }), `${name}.csv`)),
  ];
  if (!api.held) {
    files.push(
      button("HTML", "This page with its numbers in one file: it opens without the studio and without the network", async () => save(new Blob([await standalone(app)], { type: "text/html" }), `${name}.html`)),
      button("Trace", "All tensors of this run: gf.Trace.load opens it, and so does the studio when it is dropped here", async () => save(await api.file(`runs/${app.run.run}/trace`), "run.gftrace")));
  }
  swap(dialog,
    el("h2", { id: "take-title", text: "Take it away" }),
    el("p", { class: "quiet", text: "Files of what is on the screen; nothing leaves this machine." }),
    el("div", { class: "buttons" }, ...files),
    api.held ? null : el("div", { class: "buttons" },
      button("Copy link", "The address of this view: it opens in this studio while it runs", () => copy(location.href, "The link")),
      button("Copy Python", "The same from a notebook", () => copy(code.textContent, "The Python"))),
    api.held ? null : code, told,
    el("form", { method: "dialog" }, el("button", { class: "plain", text: "Close" })));
  dialog.showModal();
  if (!api.held) code.textContent = await python(app).catch((error) => `# ${error.message}`);
}

/** A trace that is dropped on the page is opened: the server looks at it first. */
export function drops(app, complain) {
  const wanted = (event) => [...event.dataTransfer?.items ?? []].some(({ kind }) => kind === "file");
  addEventListener("dragover", (event) => { if (wanted(event)) event.preventDefault(); });
  addEventListener("drop", async (event) => {
    if (!wanted(event)) return;
    event.preventDefault();
    if (api.held) return;
    try {
      const answer = await api.file("traces", { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: event.dataTransfer.files[0] });
      const { model } = JSON.parse(await answer.text());
      api.forget();
      app.models = (await api.json("models")).models;
      app.pick(model);
    } catch (error) {
      complain(error.message);
    }
  });
}
