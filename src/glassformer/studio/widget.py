"""The notebook's frame as a widget: Python reads what is selected, and can select."""

from __future__ import annotations

import anywidget
import traitlets

# The page posts its address with every click, and follows the address that is posted to it.
SCRIPT = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = `glassformer: ${model.get("name")}`;
  frame.style.cssText = `width: 100%; height: ${model.get("height")}px; border: 0`;
  const received = ({ source, data }) => {
    if (source !== frame.contentWindow || typeof data?.glassformer !== "string") return;
    latest = data.glassformer;
    model.set("address", latest);
    model.save_changes();
  };
  let latest = "";
  const send = () => {
    if (model.get("address") === latest) return;
    frame.contentWindow.postMessage({ glassformer: model.get("address") }, "*");
  };
  addEventListener("message", received);
  model.on("change:address", send);
  frame.srcdoc = model.get("page");
  el.append(frame);
  return () => { removeEventListener("message", received); model.off("change:address", send); };
}
export default { render };
"""


class StudioFrame(anywidget.AnyWidget):
    _esm = SCRIPT
    page = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    address = traitlets.Unicode().tag(sync=True)  # #/head?l=3&h=7
