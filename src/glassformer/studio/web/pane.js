// A window on a picture of any size: one canvas as large as the window, redrawn as it is scrolled.

import { el } from "./dom.js";
import { density } from "./picture.js";

/**
 * @param {(pen: CanvasRenderingContext2D, view: {x: number, y: number, wide: number, high: number}) => void} draw
 *   in device pixels
 * @param {object} props attributes of the scrolling element
 */
export function pane(draw, props = {}) {
  const canvas = el("canvas", {});
  const stage = el("div", { class: "stage" }, canvas);
  const node = el("div", { ...props, class: `pane ${props.class ?? ""}`, tabindex: "0" }, stage);
  const pen = canvas.getContext("2d");
  let waiting = 0;

  function redraw() {
    waiting = 0;
    const k = density();
    const [wide, high] = [node.clientWidth * k, node.clientHeight * k];
    if (canvas.width !== wide || canvas.height !== high) {
      [canvas.width, canvas.height] = [wide, high];
      canvas.style.width = `${wide / k}px`;
      canvas.style.height = `${high / k}px`;
    } else {
      pen.clearRect(0, 0, wide, high);
    }
    draw(pen, { x: Math.round(node.scrollLeft * k), y: Math.round(node.scrollTop * k), wide, high });
  }

  canvas.again = (pen) => { // for export
    const k = density();
    draw(pen, { x: Math.round(node.scrollLeft * k), y: Math.round(node.scrollTop * k), wide: canvas.width, high: canvas.height });
  };
  const soon = () => { waiting ||= requestAnimationFrame(redraw); };
  node.addEventListener("scroll", soon, { passive: true });
  return {
    node, canvas, redraw,
    /** The picture's size in CSS pixels; the window is no larger than that. */
    resize(wide, high) {
      stage.style.width = `${wide}px`;
      stage.style.height = `${high}px`;
      redraw();
    },
    /** Scrolls if needed, so that this height is visible. */
    reveal(top, high) {
      if (top >= node.scrollTop && top + high <= node.scrollTop + node.clientHeight) return;
      node.scrollTop = top - node.clientHeight / 2;
      redraw();
    },
    /** Where a pointer is in the picture, in CSS pixels. */
    point(event) {
      const box = node.getBoundingClientRect();
      return {
        x: event.clientX - box.left - node.clientLeft + node.scrollLeft,
        y: event.clientY - box.top - node.clientTop + node.scrollTop,
      };
    },
  };
}
