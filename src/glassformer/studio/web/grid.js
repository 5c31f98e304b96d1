// A grid that holds only the cells in sight. The sizes of its rows and columns are known, so places are computed, not measured.

import { el } from "./dom.js";

const AROUND = 40; // CSS pixels beyond what is in sight
const HEADING = -1; // the column of the rows' names
let count = 0; // of rows' names, for their ids

/** Inserts a child before those that come later by this property. */
function insert(parent, child, order) {
  const later = [...parent.children].find((each) => Number(each[order]) > Number(child[order]));
  parent.insertBefore(child, later ?? null);
}

/** The part of a scroller's content that is in sight. */
export const sightOf = ({ scrollLeft, scrollTop, clientWidth, clientHeight }) => ({ left: scrollLeft, top: scrollTop, width: clientWidth, height: clientHeight });

/**
 * @param {HTMLElement} scroller around the grid
 * @param {object} of
 * @param {{top: number, high: number, kind: string, has: (column: number) => boolean}[]} of.rows in CSS pixels; the first stays at the top
 * @param {HTMLElement} of.beside a picture below the rows' names
 * @param {number} of.columns how many, each `column` wide, after `names` for the rows' names
 * @param {(row: object) => HTMLElement} of.heading of a row; what can be chosen in it has an address: data-at
 * @param {(node: HTMLElement, row: object, column: number) => void} of.dress fills a cell
 * @param {(node: HTMLElement, row: object, column?: number) => void} of.mark shows whether a cell, or a row, is chosen
 */
export function grid(scroller, { label, rows, beside, columns, column, names, heading, dress, mark }) {
  const lines = new Map(); // row → {node, cells: column → node}
  const last = rows[rows.length - 1];
  const [width, height] = [names + columns * column, last.top + last.high];
  const paper = el("div", { class: "names", role: "presentation" }, beside); // of the rows: one element that stays beside the cells
  const node = el("div", { class: "tower", role: "grid", "aria-label": label, "aria-rowcount": rows.length, "aria-colcount": columns + 1 }, paper);
  const standing = el("div", { class: "standing" }, node);
  let origin = { left: 0, top: 0 }; // in the scroller
  let stop = { row: rows[0], column: 0 }; // of the Tab key: it is always there
  Object.assign(node.style, { width: `${width}px`, height: `${height}px` });
  Object.assign(paper.style, { height: `${height}px`, marginBottom: `${-height}px` });

  const left = (c) => names + c * column;
  const isStop = (row, c) => row === stop.row && c === stop.column;

  function opened(row) {
    const name = heading(row);
    name.className = `name ${row.kind}`;
    name.id = `row-name-${++count}`;
    name.ariaColIndex = "1";
    const first = row === rows[0];
    const line = { name, node: el("div", { class: `row ${row.kind}`, role: "row", "aria-rowindex": rows.indexOf(row) + 1, "aria-owns": first ? null : name.id }), cells: new Map() };
    for (const each of first ? [line.node] : [line.node, name]) Object.assign(each.style, { height: `${row.high}px`, top: `${row.top}px` });
    (first ? line.node : paper).append(name);
    if (row.has(HEADING)) line.cells.set(HEADING, name.querySelector("[data-at]"));
    remarked(row, line);
    return line;
  }

  function remarked(row, { node: line, name, cells }) {
    for (const each of [line, name]) mark(each, row);
    for (const [c, cell] of cells) mark(cell, row, c);
  }

  /** Makes the cells of a row from one column to another, and drops the others. */
  function fill(row, from, to) {
    const line = lines.get(row) ?? opened(row);
    for (const [c, cell] of line.cells) {
      if (c === HEADING || (c >= from && c < to) || isStop(row, c)) continue;
      cell.remove();
      line.cells.delete(c);
    }
    const add = (c) => {
      if (line.cells.has(c) || !row.has(c)) return;
      const cell = el("div", { role: row === rows[0] ? "columnheader" : "gridcell", tabindex: "-1", "aria-colindex": c + 2 });
      cell.style.left = `${left(c)}px`;
      dress(cell, row, c);
      mark(cell, row, c);
      line.cells.set(c, cell);
      insert(line.node, cell, "ariaColIndex");
    };
    for (let c = from; c < to; c++) add(c);
    if (row === stop.row) {
      add(stop.column);
      line.cells.get(stop.column).tabIndex = 0;
    }
    if (lines.has(row)) return;
    lines.set(row, line);
    insert(node, line.node, "ariaRowIndex");
  }

  /** Shows what is in sight: a part of the scroller's content. */
  function view(sight) {
    const [x, y] = [sight.left - origin.left - AROUND, sight.top - origin.top - AROUND];
    const from = Math.max(0, Math.floor((x - names) / column));
    const to = Math.min(columns, Math.ceil((x + sight.width + 2 * AROUND - names) / column));
    const bottom = y + sight.height + 2 * AROUND;
    for (const row of rows) {
      if (row === rows[0] || row === stop.row || (row.top + row.high > y && row.top < bottom)) fill(row, from, to);
      else if (lines.has(row)) {
        const { node: line, name } = lines.get(row);
        line.remove();
        name.remove();
        lines.delete(row);
      }
    }
  }

  /** Where a cell is in the scroller; `x` is its middle. */
  const place = (row, c) => ({ x: origin.left + left(c) + column / 2, left: origin.left + left(c), right: origin.left + left(c + 1), top: origin.top + row.top, bottom: origin.top + row.top + row.high });

  /** Scrolls just as far as a cell needs, beside the names and below the first row. */
  function reveal(row, c) {
    const box = place(row, c);
    const by = (start, end) => (start < 0 ? start : Math.max(0, Math.min(start, end)));
    if (c !== HEADING) scroller.scrollLeft += by(box.left - scroller.scrollLeft - names, box.right - scroller.scrollLeft - scroller.clientWidth);
    if (row !== rows[0]) scroller.scrollTop += by(box.top - scroller.scrollTop - rows[0].high, box.bottom - scroller.scrollTop - scroller.clientHeight);
  }

  /** Makes a cell the stop of the Tab key; it is there after the next `view`. */
  function setStop(row, c) {
    if (isStop(row, c)) return;
    const old = lines.get(stop.row)?.cells.get(stop.column);
    if (old) old.tabIndex = -1;
    stop = { row, column: c };
    const cell = lines.get(row)?.cells.get(c);
    if (cell) cell.tabIndex = 0;
  }

  node.addEventListener("focusin", ({ target }) => {
    for (const [row, { cells }] of lines) for (const [c, cell] of cells) if (cell === target) setStop(row, c);
  });

  return {
    standing, rows, view, place, reveal, setStop,
    isFocused: () => node.contains(document.activeElement),
    box: () => ({ ...origin, right: origin.left + width, bottom: origin.top + height }),
    /** Where it stands in the scroller: to be called when the layout has changed. */
    measure() { origin = { left: standing.offsetLeft, top: standing.offsetTop }; },
    /** Marks all cells and rows again. */
    remark() { for (const [row, line] of lines) remarked(row, line); },
    /** Fills the cells of some rows again. */
    redress(changed) {
      for (const [row, { cells }] of lines) if (changed(row)) for (const [c, cell] of cells) if (c !== HEADING) dress(cell, row, c);
    },
    focus(row, c) {
      setStop(row, c);
      reveal(row, c);
      view(sightOf(scroller));
      lines.get(row).cells.get(c).focus({ preventScroll: true });
    },
    /** The nearest cell in a direction that has something; null at the edge. */
    next(down, right) {
      let [r, c] = [rows.indexOf(stop.row) + down, stop.column + right];
      while (rows[r] && c >= HEADING && c < columns && !rows[r].has(c)) [r, c] = [r + down, c + right];
      return rows[r]?.has(c) ? [rows[r], c] : null;
    },
  };
}
