// Export: the screen as a picture, a table, a page of its own, a link, or Python.

import * as api from "./api.js";
import { el } from "./dom.js";
import { valueAt } from "./picture.js";
import { python } from "./python.js";
import { toSvg } from "./svg.js";

const SHARP = 2; // pixels of a PNG for each on the screen
const ROOM = 6_000_000; // bytes of answers in an exported page
const MOST = 1500; // requests for it: a few seconds

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

async function png(node) {
  const { text, width, height } = toSvg(node, SHARP);
  const drawn = new Image();
  drawn.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await drawn.decode();
  const canvas = el("canvas", { width: width * SHARP, height: height * SHARP });
  const pen = canvas.getContext("2d");
  pen.imageSmoothingEnabled = false;
  pen.drawImage(drawn, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}

/** A cell of CSV; a formula is quoted as text. */
function quoted(value) {
  const text = String(value);
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** The CSV lines of a picture, curve or table. */
function listed(node) {
  if (node.matches("table")) {
    const heads = [...node.tHead.rows[0].cells].map((cell) => cell.textContent);
    return [...node.tBodies[0].rows].flatMap((row, r) => [...row.cells].map((cell, c) =>
      [node.caption.textContent, r, row.cells[0].textContent, c, heads[c], cell.dataset.value ?? plainly(cell.textContent)])
      .filter(([, , , c, , text]) => c && text && !row.cells[c].querySelector("button")));
  }
  return (node.shows ?? []).flatMap((each) => Array.from(each.values ?? each.bytes, (_, i) => {
    const [r, c] = [Math.floor(i / each.columns.length), i % each.columns.length];
    return [each.name, r, each.rows[r], c, each.columns[c], valueAt(each, i)];
  }));
}

const plainly = (text) => text.replace(/^−(?=[\d∞])/, "-");

/** All that is visible: one line for each value. */
function csv(node) {
  const shown = [...node.querySelectorAll("canvas, svg, table:has(caption)")].filter((each) => each.checkVisibility());
  const head = ["picture", "row", "row name", "column", "column name", "value"];
  return [head, ...shown.flatMap(listed)].map((row) => row.map(quoted).join(",")).join("\r\n");
}

/** One file that needs no server: the pages seen, with their answers. */
async function standalone(app, tell, signal) {
  const { all: held, left, of } = await api.answers(app.along(), { room: ROOM, most: MOST, tell, signal });
  const used = new Set([app.model.id, ...Object.keys(held).filter((key) => key.includes("{")).map((key) => JSON.parse(key.slice(key.indexOf("{"))).model)]);
  held.models = { models: app.models.filter(({ id }) => used.has(id)) };
  const data = JSON.stringify({ address: app.address(app.state), pages: [...app.seen], answers: held });
  const template = await (await api.file("template")).text();
  return { left, of, page: template.replace('id="held">null<', () => `id="held">${data.replaceAll("<", "\\u003c")}<`) };
}

/** HTML that embeds an exported page. */
const embedded = (file) => `<iframe src="${file}" title="${document.title}" width="100%" height="720" loading="lazy"></iframe>`;

/** @param {HTMLDialogElement} dialog */
export async function showExport(app, dialog) {
  const node = document.getElementById("page");
  const name = `glassformer-${app.state.page}`;
  const status = el("p", { class: "quiet", role: "status" });
  const code = el("pre", { class: "code", tabindex: "0", "aria-label": "Python" });
  const leaving = new AbortController();
  dialog.addEventListener("close", () => dialog.open || leaving.abort(), { signal: leaving.signal }); // a late close event
  const button = (text, hint, act) => el("button", { type: "button", class: "plain", title: hint, text, on: { click: async ({ target }) => {
    const all = [...dialog.querySelectorAll(".buttons button")];
    for (const each of all) each.disabled = true;
    status.textContent = `${text} …`;
    try {
      status.textContent = await act() ?? `${text}: done.`;
    } catch (error) {
      status.textContent = error.message;
    }
    for (const each of all) each.disabled = false;
    target.focus();
  } } });
  /** Exports what is shown now, whatever changes meanwhile. */
  const html = async () => {
    const tell = (done, of) => { if (done % 20 === 0) status.textContent = `HTML … ${done} of ${of}`; };
    const { page, left, of } = await standalone({ ...app, state: { ...app.state }, seen: new Set(app.seen) }, tell, leaving.signal);
    save(new Blob([page], { type: "text/html" }), `${name}.html`);
    return left ? `HTML: done, without ${left} of ${of} answers: what needs them is disabled.` : null;
  };
  const copy = (text, what) => navigator.clipboard.writeText(text).then(() => `${what} copied.`, () => `Copying is not allowed here: mark it and copy it by hand.`);
  const files = [
    button("PNG", "A picture, two pixels for each on the screen", async () => save(await png(node), `${name}.png`)),
    button("SVG", "A picture of shapes and words, for papers and slides", () => save(new Blob([toSvg(node).text], { type: "image/svg+xml" }), `${name}.svg`)),
    button("CSV", "The numbers, one a line", () => save(new Blob([csv(node)], { type: "text/csv" }), `${name}.csv`)),
  ];
  if (!api.held) {
    files.push(
      button("HTML", "This page with its numbers in one file: it opens without the studio and without the network", html),
      button("Copy iframe", "A line of HTML that shows the exported page inside another one: save the HTML file beside it", () => copy(embedded(`${name}.html`), "The iframe")),
      ...!app.run ? [] : [button("Trace", "All tensors of this run: gf.Trace.load opens it, and so does the studio when it is dropped here", async () => save(await api.file(`runs/${app.run.run}/trace`), "run.gftrace"))]);
  }
  dialog.replaceChildren(...[
    el("h2", { id: "export-title", text: "Export" }),
    el("p", { class: "quiet", text: "Files of what is on the screen; nothing leaves this machine." }),
    el("div", { class: "buttons" }, ...files),
    api.held ? null : el("div", { class: "buttons" },
      button("Copy link", "The address of this view: it opens in this studio while it runs", () => copy(location.href, "The link")),
      button("Copy Python", "The same from a notebook", () => copy(code.textContent, "The Python"))),
    api.held ? null : code, status,
    el("form", { method: "dialog" }, el("button", { class: "plain", text: "Close" })),
  ].filter(Boolean));
  dialog.showModal();
  if (!api.held) code.textContent = await python(app).catch((error) => `# ${error.message}`);
}

/** Opens a trace file that is dropped on the page. */
export function drops(app, complain) {
  const hasFile = (event) => [...event.dataTransfer?.items ?? []].some(({ kind }) => kind === "file");
  addEventListener("dragover", (event) => { if (hasFile(event)) event.preventDefault(); });
  addEventListener("drop", async (event) => {
    if (!hasFile(event)) return;
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
