"""What is taken away is what was seen: pictures, tables, a trace, a link, Python."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import glassformer as gf
from browser.handling import MAP, MATRIX, PAGES, drop, head, taken
from browser.screens import Server, drawn, painted, pixels, settle, table
from sampling import mostly_slow

FRAME = """([selector, colour]) => {
  const [origin, box] = ["#page", `#page ${selector}`]
    .map((each) => document.querySelector(each).getBoundingClientRect());
  const style = getComputedStyle(document.documentElement);
  const hex = style.getPropertyValue(colour).trim();
  const rgb = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return [box.x - origin.x, box.y - origin.y + box.height / 2, box.width, rgb];
}"""
TOOLS = """() => [...document.querySelectorAll("#page .tools")].flatMap((tools) => {
  const found = document.createTreeWalker(tools, NodeFilter.SHOW_TEXT);
  const words = [];
  while (found.nextNode()) {
    const holder = found.currentNode.parentElement;
    if (!holder.checkVisibility() || holder.closest("select, .unseen")) continue;
    words.push(found.currentNode.data.trim());
  }
  return words;
}).filter(Boolean)"""
WEIGHTS = "Weights: rows look, columns are looked at"
MEASURES = "Measures of this head"
SVG = "{http://www.w3.org/2000/svg}"
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)> \x01 =1+1"


def numbers(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def words(root: ElementTree.Element) -> set[str]:
    return {(each.text or "").strip() for each in root.iter(f"{SVG}text")}


def test_a_picture_of_shapes(toys: Server, open_page: Callable[..., Page], tmp_path: Path) -> None:
    """A strict parser reads it; each cell is there, with its value and its colour."""
    page = open_page(toys.address("head", l=1, h=2))
    weights = head(toys, page)
    root = ElementTree.parse(taken(page, "SVG", tmp_path)).getroot()
    cells = [each for each in root.iter(f"{SVG}rect") if each.get("data-value")]
    values = np.array([float(each.get("data-value") or 0) for each in cells])
    assert np.array_equal(np.floor(values * 255 + 0.5).astype(int), weights.flatten())
    fills = [[int((each.get("fill") or "")[i : i + 2], 16) for i in (1, 3, 5)] for each in cells]
    assert np.array_equal(fills, table(page)[weights.flatten()])
    assert {"What does this head look at?", "deposited", "[MASK]"} <= words(root)
    assert len([each for each in root.iter(f"{SVG}path") if "C" in (each.get("d") or "")]) > 20


def served(server: Server, name: str, run: str) -> dict[str, Any]:
    """Pictures of a page, by how their names begin, with the server's own numbers."""

    def shares(path: str) -> Any:
        return np.rint(10_000.0 * server.tensor(f"runs/{run}/{path}") / 255) / 10_000

    if name in ("map", "compare", "translate"):
        heads = {each: shares(f"map/{each}") for each in ("encoder", "decoder", "cross")}
        return {
            "map": {"encoder, layer": heads["encoder"]},
            "compare": {"The first:": heads["encoder"][0, 0]},
            "translate": {f"{each}, layer": found for each, found in heads.items()},
        }[name]
    if name == "layers":
        return {"Probability of the final": np.transpose(server.json(f"runs/{run}/lens")["p"])}
    if name == "positions":
        return {"All positions": server.json("positions")["values"]}
    return {}


@pytest.mark.parametrize("name", mostly_slow(PAGES))
def test_every_page_has_a_picture(
    toys: Server, open_page: Callable[..., Page], tmp_path: Path, name: str
) -> None:
    """It parses, has the words of the toolbars, and holds the values of the table."""
    state = {"m": toys.model("toy translator"), "off": "cross.0.1"}
    page = open_page(toys.address(name, **state), theme="dark")
    page.wait_for_function("() => document.querySelector('#live').textContent")
    root = ElementTree.parse(taken(page, "SVG", tmp_path)).getroot()
    shown = page.locator("h1").text_content()
    tools = set(page.evaluate(TOOLS))
    assert tools or name == "translate"
    assert {shown, *tools} <= words(root)
    rows = numbers(taken(page, "CSV", tmp_path))
    assert len(rows) > 10 and all(row["value"] for row in rows)
    drawings = [each for each in root.iter(f"{SVG}g") if each.get("role") == "img"]
    assert drawings or name in ("space", "neurons", "pooling", "toy", "causes")
    for each in drawings:
        values = [cell.get("data-value") for cell in each]
        told = [row["value"] for row in rows if row["picture"] == each.get("aria-label")]
        assert values == told
    text = page.locator("#text").input_value()
    asked = {"model": state["m"], "text": text, "off": [["cross", 0, 1]]}
    for picture, wanted in served(toys, name, toys.json("runs", asked)["run"]).items():
        found = [float(row["value"]) for row in rows if row["picture"].startswith(picture)]
        assert np.array_equal(found, np.array(wanted).flatten())


@pytest.mark.slow
def test_a_picture_of_pixels(toys: Server, open_page: Callable[..., Page], tmp_path: Path) -> None:
    from PIL import Image

    page = open_page(toys.address("head", l=1, h=2))
    weights = head(toys, page)
    with Image.open(taken(page, "PNG", tmp_path)) as image:
        found = np.array(image.convert("RGBA"))
    wide = page.locator("#page").evaluate("(node) => Math.ceil(node.getBoundingClientRect().width)")
    assert found.shape[1] == 2 * wide
    scale = 2 * pixels(page, MATRIX).shape[1] // weights.shape[1]
    wanted = painted(table(page), weights, scale)
    chosen = 3  # the blank, framed
    box = page.evaluate("""() => {
      const [a, b] = ["#page", ".matrix-pane canvas"]
        .map((each) => document.querySelector(each).getBoundingClientRect());
      return [Math.round(2 * (b.y - a.y)), Math.round(2 * (b.x - a.x))];
    }""")
    part = found[box[0] : box[0] + wanted.shape[0], box[1] : box[1] + wanted.shape[1]]
    inside = [i for i in range(len(wanted)) if chosen not in ((i - 1) // scale, (i + 1) // scale)]
    assert np.array_equal(part[inside], wanted[inside])


def test_windows_in_a_picture(toys: Server, open_page: Callable[..., Page], tmp_path: Path) -> None:
    """Code in its own type, cut where its window ends; boxes with what they suggest."""
    page = open_page(toys.address("lab", off="encoder.0.1"))
    settle(page)
    root = ElementTree.parse(taken(page, "SVG", tmp_path)).getroot()
    assert {"a word", "I sat by the river [MASK]."} <= words(root)
    group, lines = next(
        (each, lines)
        for each in root.iter(f"{SVG}g")
        if (lines := each.findall(f"{SVG}text"))
        and (lines[0].text or "").startswith("import glassformer")
    )
    assert len(lines) > 3 and all("mono" in line.get("font-family", "") for line in lines)
    rect = group.find(f"{SVG}clipPath/{SVG}rect")
    assert rect is not None
    left, wide = page.evaluate("""() => {
      const [page, code] = ["#page", "#page .code"]
        .map((each) => document.querySelector(each).getBoundingClientRect());
      return [code.x - page.x, code.width];
    }""")
    assert abs(float(rect.get("x", 0)) - left) <= 1
    assert abs(float(rect.get("width", 0)) - wide) <= 2


@pytest.mark.slow
def test_frames_in_a_picture_of_pixels(
    toys: Server, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """The chosen row, and free room in the cache: both are drawn as shadows on the screen."""
    from PIL import Image

    page = open_page(toys.address("generate", m="toy-decoder"))
    settle(page)
    with Image.open(taken(page, "PNG", tmp_path)) as image:
        found = np.array(image.convert("RGB")).astype(int)
    for selector, colour in ((".looking .mark", "--accent"), (".store .free", "--quiet")):
        x, y, wide, wanted = page.evaluate(FRAME, [selector, colour])
        line = found[round(2 * y), round(2 * x) : round(2 * (x + wide))]
        near = np.abs(line - wanted).sum(-1) < 60
        assert near[:4].any() and near[-4:].any() and not near.all()


def test_a_table(toys: Server, open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page(toys.address())
    run, stack, *_ = drawn(page, MAP)
    page.wait_for_function("() => document.querySelector('#live').textContent")
    rows = numbers(taken(page, "CSV", tmp_path))
    heads = toys.tensor(f"runs/{run}/map/{stack}")
    cells = [row for row in rows if row["picture"].startswith("encoder, layer")]
    values = np.array([float(row["value"]) for row in cells])
    assert np.array_equal(np.floor(values * 255 + 0.5).astype(int), heads.flatten())
    last = cells[-1]
    assert last["picture"] == "encoder, layer 1, head 3" and last["column name"] == "[SEP]"
    told = {row["row name"]: float(row["value"]) for row in rows if row["picture"] == MEASURES}
    known = toys.json(f"runs/{run}/measures")
    wanted = {each["title"]: known["values"][stack][each["id"]][0][0] for each in known["names"]}
    assert told == wanted


def column(rows: list[dict[str, str]], picture: str, name: str) -> list[float]:
    found = [row for row in rows if row["picture"].startswith(picture)]
    return [float(row["value"]) for row in found if row["column name"] == name]


@pytest.mark.slow
def test_tables_with_all_their_digits(
    toys: Server, strangers: Server, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Chances of Generate, bits and cosines of Layers, the losses of a run: the server's own."""
    page = open_page(toys.address("generate", m="toy-decoder"))
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    text = page.locator("#text").input_value()
    wrote = toys.json(
        "generations", {"model": "toy-decoder", "text": text, "max_new_tokens": 12, "taken": []}
    )
    top = [each["p"][0] for each in wrote["steps"][0]["top"]]
    assert column(rows, "Candidates", "model") == top
    assert {"in use", "reserved"} <= {row["row name"] for row in rows}
    page.goto(toys.address("layers", m="toy-encoder"))
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    asked = toys.json("runs", {"model": "toy-encoder", "text": page.locator("#text").input_value()})
    home, token = f"runs/{asked['run']}", asked["predictions"]["at"][0]["token"]
    bits = [point[token] for point in toys.json(f"{home}/lens")["kl"]]
    assert column(rows, "Logit lens at each point", "KL (bits)") == bits
    way = toys.json(f"{home}/trajectory/encoder/{token}")
    assert column(rows, "Cosines of “[MASK]”", "end") == way["to_end"]
    run = strangers.model("run")
    page.goto(strangers.address("training", m=run))
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    losses = strangers.json(f"models/{run}/training")["losses"]
    root = ElementTree.parse(taken(page, "SVG", tmp_path)).getroot()
    assert {"layer", "head"} <= set(page.evaluate(TOOLS)) <= words(root)
    assert column(rows, "Loss on what it learns from", "loss") == [loss for _, loss in losses]
    assert column(rows, "Loss on what is held out", "loss") == [3.9, 2.5]


@pytest.mark.slow
def test_answers_and_the_walk_with_all_their_digits(
    toys: Server, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    """Chances before and after in Lab, of both in Compare; scores and vectors of Numbers."""
    page = open_page(toys.address("lab", q=3, off="encoder.0.1"))
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    ask = {"model": "toy-encoder", "text": page.locator("#text").input_value()}
    before, after = (
        {
            each["text"]: each["p"]
            for each in toys.json("runs", asked)["predictions"]["at"][0]["top"]
        }
        for asked in (ask, {**ask, "off": [["encoder", 0, 1]]})
    )
    told = [row for row in rows if row["picture"].endswith("before and after the change")]
    wanted = {
        "before": before,
        "after": after,
        "change": {word: after[word] - before[word] for word in before.keys() & after},
    }
    assert {row["column name"] for row in told} == set(wanted)
    for row in told:
        assert float(row["value"]) == wanted[row["column name"]][row["row name"]]
    page.keyboard.press("9")
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    (best,) = [row for row in rows if (row["row name"], row["column name"]) ==
               ("second", "p of 1")]  # fmt: skip
    assert float(best["value"]) == max(before.values())
    page.goto(toys.address("numbers", q=3, l=1, s=2))
    settle(page)
    rows = numbers(taken(page, "CSV", tmp_path))
    home = f"runs/{toys.json('runs', ask)['run']}"
    walk = toys.json(f"{home}/numbers/encoder/1/0/3")
    for name, wanted in (("score", "scores"), ("weight", "weights")):
        assert column(rows, "From scores to weights", name) == walk[wanted]
    query = [float(row["value"]) for row in rows if row["picture"] == "q query"]
    assert query == walk["vectors"]["q"]


def test_a_trace_comes_back(toys: Server, open_page: Callable[..., Page], tmp_path: Path) -> None:
    """Taken away, opened in Python, dropped on the page again: the same picture."""
    page = open_page(toys.address("head", l=1, h=2, q=3))
    weights = head(toys, page)
    path = taken(page, "Trace", tmp_path)
    assert path.suffix == ".gftrace"
    trace = gf.Trace.load(path)
    kept = trace["encoder.blocks.1.attention.weights"][2].numpy()
    assert np.array_equal(np.floor(kept * 255 + 0.5).astype(int), weights)
    drop(page, path.read_bytes())
    expect(page.get_by_label("Model", exact=True)).to_contain_text("trace: i deposited in the bank")
    drawn(page, MATRIX, "0")  # its first head
    page.goto(page.url.replace("#/map", "#/head") + "&l=1&h=2")
    run = drawn(page, MATRIX, "1", "2")[0]
    assert run.startswith("t")
    found = pixels(page, MATRIX)
    assert np.array_equal(found, painted(table(page), weights, found.shape[1] // 9))
    expect(page.locator("#ask")).to_be_hidden()


def test_words_of_a_dropped_trace(toys: Server, open_page: Callable[..., Page]) -> None:
    """Hostile ones are shown as they are; a file that is no trace is one line."""
    trace = toys.trace("toy-encoder", "I sat by the river bank.")
    hostile = [f"{EVIL} {n}" for n, _ in enumerate(trace.tokens)]
    page = open_page(toys.address())
    drawn(page, MAP)
    drop(page, gf.Trace(trace.tensors, hostile, [], trace.config).to_bytes())
    expect(page.locator(".strip button").first).to_have_text(f"{EVIL} 0")
    expect(page.get_by_role("main")).to_have_attribute("aria-busy", "false")
    assert page.locator("img").count() == 1 and page.locator("script").count() == 1
    drop(page, b"{}" * 100)
    expect(page.get_by_role("alert")).to_contain_text("not a trace")


def test_hostile_words_in_what_is_taken(
    toys: Server, open_file: Callable[..., Page], tmp_path: Path
) -> None:
    trace = toys.trace("toy-encoder", "I sat by the river bank.")
    hostile = gf.Trace(trace.tensors, [EVIL] * len(trace.tokens), [], trace.config)
    (tmp_path / "view.html").write_text(hostile.view("head").html)
    page = open_file((tmp_path / "view.html").as_uri())
    drawn(page, MATRIX)
    root = ElementTree.parse(taken(page, "SVG", tmp_path)).getroot()
    assert not {each.tag for each in root.iter()} & {
        f"{SVG}script",
        f"{SVG}img",
        f"{SVG}foreignObject",
    }
    rows = numbers(taken(page, "CSV", tmp_path))
    assert len([row for row in rows if row["picture"] == WEIGHTS]) == len(trace.tokens) ** 2


def test_links_and_python(strangers: Server, open_page: Callable[..., Page]) -> None:
    """The Python in the dialog runs, and gives the run's weights."""
    state = {"m": strangers.model("bert"), "l": 1, "h": 2, "w": "mean", "off": "encoder.0.1"}
    page = open_page(strangers.address("head", **state))
    weights = head(strangers, page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("E")
    dialog = page.get_by_role("dialog", name="Export")
    expect(dialog.locator(".code")).to_contain_text("trace.view(")
    dialog.get_by_role("button", name="Copy Python").click()
    expect(dialog.get_by_role("status")).to_contain_text("copied")
    code = page.evaluate("navigator.clipboard.readText()")
    names: dict[str, Any] = {}
    exec(code, names)
    found = names["trace"]["encoder.blocks.1.attention.weights"].mean(0).numpy()
    assert np.array_equal(np.floor(found * 255 + 0.5).astype(int), weights)
    assert 'weights="mean"' in code
    dialog.get_by_role("button", name="Copy link").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('http')")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    dialog.get_by_role("button", name="Copy iframe").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('<')")
    assert page.evaluate("navigator.clipboard.readText()").startswith(
        '<iframe src="glassformer-head.html" title="What does this head look at? ·'
    )


def ran(page: Page, address: str, ready: str) -> dict[str, Any]:
    """The Python that a page offers, after it has run."""
    page.goto(address)
    page.locator(ready).first.wait_for()
    expect(page.get_by_role("main")).to_have_attribute("aria-busy", "false")
    page.keyboard.press("E")
    code = page.locator("#export .code")
    expect(code).to_contain_text("glassformer")
    names: dict[str, Any] = {}
    exec(code.text_content() or "", names)
    page.keyboard.press("Escape")
    return names


@pytest.mark.slow
def test_the_python_of_pages_without_a_view(
    strangers: Server, open_page: Callable[..., Page]
) -> None:
    """The same numbers: of the lens, of positions, of words out of order, of two runs."""
    bert = {"m": strangers.model("bert"), "x": "the cat sat on", "l": 1, "h": 2}
    page = open_page(strangers.url)
    settle(page)
    names = ran(page, strangers.address("layers", **bert, q=2, o="where was the cat"), ".cosines")
    run = drawn(page, ".lens canvas")[0]
    assert names["answer"].probabilities.tolist() == strangers.json(f"runs/{run}/lens")["p"]
    shown = page.locator(".cosines tbody tr td:last-child").all_text_contents()
    assert [f"{each:.3f}".replace("-", "−") for each in names["cosines"].tolist()] == shown
    names = ran(page, strangers.address("positions", **bert, show="model"), ".squiggles")
    assert names["positions"].values == strangers.json(f"positions/{bert['m']}/encoder")["values"]
    state = {"m": strangers.model("marian"), "show": "shuffle", "flat": 1, "in": "encoder"}
    address = strangers.address("positions", **state, x="i ate the apple")
    names = ran(page, address, ".page-shuffle .words")
    shuffle = drawn(page, ".page-shuffle > :nth-child(3) canvas")[0]
    after = strangers.tensor(f"shuffles/{shuffle}/after/encoder/0/0")
    back = np.argsort(names["order"])
    found = names["shuffled"]["encoder.blocks.0.attention.weights"][0].numpy()[back][:, back]
    assert np.array_equal(np.floor(found * 255 + 0.5).astype(int), after)
    for name, more in (("compare", {"o": "where was the mat"}), ("lab", {"sw": "encoder.2.mat"})):
        names = ran(page, strangers.address(name, **bert, **more), f".page-{name} .matrix")
        assert_apart(strangers, page, names, "encoder/1/2")
    model = strangers.model("run")
    names = ran(page, strangers.address("training", m=model, cp=10, x="the cat"), ".right .values")
    losses = strangers.json(f"models/{model}/training")["losses"]
    assert names["losses"].train == [tuple(each) for each in losses]
    assert names["difference"].abs().max() > 0.01


def assert_apart(server: Server, page: Page, names: dict[str, Any], head: str) -> None:
    one, two, *_ = drawn(page, "[aria-label*=ifference] canvas")
    one, two = (two, one) if "/lab" in page.url else (one, two)
    wanted = server.tensor(f"difference/{one}/{two}/head/{head}").astype(int)
    found = np.round(127 * names["difference"].numpy()) + 128
    assert np.abs(found - wanted).max() == 0
