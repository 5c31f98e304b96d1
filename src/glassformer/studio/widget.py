"""The same frame as a widget: Python knows what is chosen in it, and can choose."""

from __future__ import annotations

import anywidget
import traitlets

# The page tells its address with every click, and follows the one it is told.
SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = `glassformer: ${model.get("name")}`;
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
  const told = ({ source, data }) => {
    if (source !== frame.contentWindow || typeof data?.glassformer !== "string") return;
    heard = data.glassformer;
    model.set("address", heard);
    model.save_changes();
  };
  let heard = "";
  const tell = () => {
    if (model.get("address") === heard) return;
    frame.contentWindow.postMessage({ glassformer: model.get("address") }, "*");
  };
  addEventListener("message", told);
  model.on("change:address", tell);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => { removeEventListener("message", told); model.off("change:address", tell); };
}
export default { render };
"""


class StudioFrame(anywidget.AnyWidget):
    _esm = SCRIPT
    page = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    address = traitlets.Unicode().tag(sync=True)  # #/head?l=3&h=7
