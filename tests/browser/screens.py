"""Reading a page back: pixels, colours, and what the server said about them."""

import base64
import json
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import Page

import glassformer as gf
from glassformer.studio.standalone import DONE

PIXELS = """(selector) => {
  const canvas = document.querySelector(selector);
  const { data, width, height } = canvas.getContext("2d")
    .getImageData(0, 0, canvas.width, canvas.height);
  let text = "";
  for (let i = 0; i < data.length; i += 8192) {
    text += String.fromCharCode(...data.subarray(i, i + 8192));
  }
  return [btoa(text), height, width];
}"""
TABLE = """async ([theme, faint]) => (await import("./colour.js")).colours(theme, faint)"""
Bytes = NDArray[np.uint8]
READY = {
    "model": ".chosen-part .parts",
    "map": ".one-head .measures",
    "head": ".page-head .row table",
    "numbers": ".step .shown",
    "translate": ".minis canvas",
    "generate": ".looking table",
    "layers": ".cosines",
    "positions": ".page-positions .squiggles",
    "space": ".page-space .alike, .page-space .pairs",
    "neurons": ".page-neurons .units",
    "pooling": ".page-pooling .sheet",
    "toy": ".page-toy .sheet",
    "lab": ".page-lab .code",
    "causes": ".page-causes .sheet, .page-causes .none:not([hidden])",
    "compare": ".page-compare .two",
    "training": ".page-training .values, .none",
}


@dataclass(frozen=True)
class Server:
    """A studio that runs, and its answers without a browser."""

    url: str

    def json(self, path: str, body: object = None) -> Any:
        return json.loads(self._ask(path, body)[0])

    def tensor(self, path: str) -> Bytes:
        data, shape = self._ask(path)
        return np.frombuffer(data, np.uint8).reshape([int(n) for n in shape.split(",")])

    def _ask(self, path: str, body: object = None) -> tuple[bytes, str]:
        headers = {"Origin": self.url.rstrip("/"), "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}api/{path}", data, headers)
        with urllib.request.urlopen(request) as answer:
            return answer.read(), answer.headers.get("X-Shape", "")

    def trace(self, model: str, text: str) -> gf.Trace:
        """What the server has recorded of a text."""
        run = self.json("runs", {"model": model, "text": text})["run"]
        return gf.Trace.from_bytes(self._ask(f"runs/{run}/trace")[0])

    def model(self, name: str) -> str:
        models = self.json("models")["models"]
        return str(next(each["id"] for each in models if each["name"] == name))

    def address(self, page: str = "map", **state: object) -> str:
        return f"{self.url}#/{page}?{urlencode(state)}"


def drawn(page: Page, selector: str, *parts: str) -> list[str]:
    """Waits until a canvas shows these parts (run, stack, …), and says all it shows."""
    page.wait_for_function(
        """([selector, parts]) => {
          const shown = document.querySelector(selector)?.dataset.drawn?.split(",") ?? [];
          return shown.length > 0 && parts.every((part) => shown.includes(part));
        }""",
        arg=[selector, list(parts)],
    )
    shown = page.locator(selector).get_attribute("data-drawn")
    assert shown
    return shown.split(",")


def pixels(page: Page, selector: str) -> Bytes:  # (height, width, 4)
    data, high, wide = page.evaluate(PIXELS, selector)
    return np.frombuffer(base64.b64decode(data), np.uint8).reshape(high, wide, 4)


def table(page: Page, theme: str = "light", faint: bool = False) -> Bytes:  # (256, 3)
    return np.array(page.evaluate(TABLE, [theme, faint]), np.uint8)


def painted(
    colours: Bytes, values: Bytes, scale: int, tall: int | None = None
) -> Bytes:  # (rows · tall, columns · scale, 4)
    """What the picture of a matrix has to be; its cells are squares, unless it says how tall."""
    opaque = np.concatenate([colours[values], np.full((*values.shape, 1), 255, np.uint8)], -1)
    return opaque.repeat(tall or scale, 0).repeat(scale, 1)


def nearest_bytes(values: Sequence[Any]) -> Bytes:
    """round(255 · value), halves upwards as in the browser."""
    return np.floor(np.clip(np.array(values, np.float64), 0, 1) * 255 + 0.5).astype(np.uint8)


def settle(page: Page) -> None:
    """The page that the address names has all its parts."""
    name = re.search(r"#/(\w+)", page.url)
    page.locator(READY[name[1] if name else "model"]).first.wait_for()
    page.wait_for_function(DONE)
