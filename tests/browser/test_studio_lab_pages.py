"""Lab, Compare and Training: true pixels, everything by keyboard and by ear, calm refusals."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from browser.handling import MATRIX, NAMELESS, check_by_tab, drop, taken
from browser.hostile import BENIGN, HOSTILE, TAGS, Mouth
from browser.screens import Bytes, Server, drawn, painted, pixels, settle, table
from sampling import mostly_slow

CHECKPOINT = "[aria-label='Weights at this checkpoint'] canvas"
SIGNED = """async (theme) => (await import("./signed.js")).diverging(theme)"""
PAGES = ("lab", "compare", "training")


def signed(page: Page, theme: str = "light") -> Bytes:
    return np.array(page.evaluate(SIGNED, theme), np.uint8)


def assert_painted(page: Page, selector: str, colours: Bytes, values: Bytes) -> None:
    found = pixels(page, selector)
    scale = found.shape[1] // values.shape[1]
    assert np.array_equal(found, painted(colours, values, scale))


def test_the_colours_of_differences(toys: Server, open_page: Callable[..., Page]) -> None:
    """The middle is the paper; no colour stands for two differences."""
    page = open_page(toys.url)
    for theme in ("light", "dark"):
        colours = signed(page, theme)
        assert colours.shape == (256, 3)
        assert np.array_equal(colours[128], table(page, theme)[0])
        assert len({tuple(each) for each in colours[1:].tolist()}) > 250


@pytest.mark.parametrize("theme", mostly_slow(["light", "dark"]))
def test_the_picture_of_the_lab(toys: Server, open_page: Callable[..., Page], theme: str) -> None:
    page = open_page(toys.address("lab", l=1, h=2, off="encoder.0.1"), theme=theme)
    after, before, *_ = drawn(page, MATRIX)
    values = toys.tensor(f"difference/{before}/{after}/head/encoder/1/2")
    assert len(set(values.flatten().tolist())) > 3
    assert_painted(page, MATRIX, signed(page, theme), values)


def test_every_patch_at_once(toys: Server, open_page: Callable[..., Page]) -> None:
    """The heat map of the sweep has its true colours, and a click applies that patch."""
    texts = {"x": "I deposited [MASK] in the bank.", "from": "I ate [MASK] in the bank."}
    page = open_page(toys.address("lab", m=toys.model("toy encoder"), **texts))
    settle(page)
    page.get_by_role("button", name="Try every patch").click()
    path, _ = drawn(page, ".sweep canvas")
    found = toys.json(path)
    shares = np.array(found["recovered"]).T.clip(-1, 1)
    values = (128 + np.floor(127 * shares + 0.5)).astype(np.uint8)
    seen = pixels(page, ".sweep canvas")
    rows, columns = values.shape
    picked = signed(page)[values]
    high, wide = seen.shape[0] // rows, seen.shape[1] // columns
    assert np.array_equal(seen[high // 2 :: high, wide // 2 :: wide][:rows, :columns, :3], picked)
    page.locator(".sweep .matrix-pane").click(position={"x": 3, "y": 3})
    expect(page.locator(".changes li")).to_contain_text("encoder: after layer 0, token 0")


def test_changes_are_made_and_undone(toys: Server, open_page: Callable[..., Page]) -> None:
    """Masked, swapped, patched, off: said before and after, in Python, and back again."""
    page = open_page(toys.address("lab", q=2))
    settle(page)
    changes = page.locator(".changes li")
    expect(page.locator(".still")).to_be_visible()
    page.get_by_label("Another word").fill("ate")
    page.keyboard.press("Enter")
    expect(changes).to_have_count(1)
    expect(page.locator(".change .strip button[aria-pressed=true]").first).to_have_text("ate")
    after = toys.json("runs", {"model": "toy-encoder", "text": page.locator("#text").input_value(),
                               "swaps": [["encoder", 2, "ate"]]})  # fmt: skip
    shown = page.locator("table.both tbody tr").first.locator("th, td").all_text_contents()
    top = {each["text"]: each["p"] for each in after["predictions"]["at"][0]["top"]}
    assert shown[2] == f"{top[shown[0]]:.2f}"
    page.get_by_label("Another sentence").fill("I sat by the river bank.")
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Tokens of the other sentence").get_by_text("river").click()
    page.get_by_role("button", name=re.compile("Patch: “river”")).click()
    expect(changes).to_have_count(2)
    page.get_by_role("button", name="Switch off").click()
    expect(changes).to_have_count(3)
    expect(page.locator(".code").first).to_contain_text("patched(other, 'encoder', [(0, 2, 5)])")
    page.evaluate("document.activeElement.blur()")
    for key, count in (("z", 2), ("z", 1), ("z", 0), ("Z", 1), ("Z", 2), ("z", 1)):
        page.keyboard.press(key)
        expect(changes).to_have_count(count)
    page.get_by_role("button", name=re.compile("remove: token 2")).click()
    expect(changes).to_have_count(0)
    page.get_by_role("button", name="Undo").click()
    expect(changes).to_have_count(1)
    page.get_by_label("Another word").fill("zebra")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("does not know the word 'zebra'")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.slow
def test_a_patch_keeps_its_sentence(toys: Server, open_page: Callable[..., Page]) -> None:
    """Another one that is read takes the patch away, undo brings back both; Compare has its own."""
    page = open_page(toys.address("lab", q=2))
    settle(page)
    box, changes = page.get_by_label("Another sentence"), page.locator(".changes li")
    first, second = "I sat by the river bank.", "I deposited money in the bank."
    for text in (first, second):
        box.fill(text)
        page.keyboard.press("Enter")
        expect(changes).to_have_count(0)
        if text == first:
            page.get_by_role("button", name=re.compile("Patch: “i”", re.IGNORECASE)).click()
            expect(changes).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(changes).to_have_count(1)
    expect(box).to_have_value(first)
    expect(page.locator(".python .code")).to_contain_text("river")
    page.get_by_role("link", name="Compare").click()
    settle(page)
    title = page.locator("[aria-label='The second'] h2")
    for text in (second, ""):
        page.get_by_label("Second sentence").fill(text)
        page.keyboard.press("Enter")
        expect(title).to_contain_text(f"“{text or page.locator('#text').input_value()}”")
        expect(page.locator("[aria-label='The first'] h2")).to_contain_text("1 vector patched")
        expect(page.get_by_role("alert")).to_be_hidden()
        assert "from=I+sat" in page.url


@pytest.mark.slow
def test_a_change_that_cannot_be_is_taken_back(
    toys: Server, strangers: Server, open_page: Callable[..., Page]
) -> None:
    """It is said why; what was changed before stays, and every page goes on."""
    page = open_page(toys.address("lab", q=2, sw="encoder.1.the"))
    settle(page)
    page.get_by_label("Another word").fill("refrigerator")
    page.keyboard.press("Enter")
    line = page.get_by_role("alert")
    expect(line).to_contain_text("does not know the word")
    assert "refrigerator" not in page.url
    expect(page.locator(".changes li")).to_have_text([re.compile("token 1 .* “the”")])
    page.get_by_role("link", name="Head").click()
    drawn(page, f".page-head {MATRIX}")
    expect(line).to_be_hidden()
    page = open_page(toys.address("lab", sw="encoder.2.%3Cimg", cp=5))
    expect(page.get_by_role("alert")).to_contain_text("no such checkpoint")
    expect(page.get_by_role("heading", name="No changes yet")).to_be_visible()
    model = strangers.model("run")
    page = open_page(strangers.address("head", m=model, x="the cat", cp=7))
    drawn(page, MATRIX)
    expect(page.get_by_role("alert")).to_contain_text("no such checkpoint")
    assert "cp=" not in page.url


def test_two_sentences(toys: Server, open_page: Callable[..., Page]) -> None:
    state = {"l": 1, "h": 3, "o": "I deposited [MASK] in the river."}
    page = open_page(toys.address("compare", **state))
    settle(page)
    first, second, between = (f"[aria-label='{name}'] canvas" for name in
                              ("The first", "The second", "The difference"))  # fmt: skip
    one, two, *_ = drawn(page, between)
    for selector, run in ((first, one), (second, two)):
        weights = toys.tensor(f"runs/{run}/head/encoder/1/3?view=raw")
        assert_painted(page, selector, table(page), weights)
    values = toys.tensor(f"difference/{one}/{two}/head/encoder/1/3")
    assert_painted(page, between, signed(page), values)
    page.goto(toys.address("compare", o="I ate the apple"))
    expect(page.locator(".still")).to_contain_text("the same shape on both sides")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_it_is_said_what_is_compared(toys: Server, open_page: Callable[..., Page]) -> None:
    """What was changed in the first; and a model of another family is no second."""
    state = {"m": "toy-encoder", "bm": "toy-translator", "off": "encoder.0.0,encoder.1.1"}
    page = open_page(toys.address("compare", **state))
    settle(page)
    titles = [page.locator(f"[aria-label='The {name}'] h2") for name in ("first", "second")]
    expect(titles[0]).to_contain_text("toy encoder, 2 heads off: “")
    expect(titles[1]).to_contain_text("toy encoder: “")
    expect(page.get_by_label("compare with")).to_have_value("")
    drawn(page, "[aria-label='The difference'] canvas")
    page.keyboard.press("w")
    page.wait_for_function("() => !location.hash.includes('bm=')")


@pytest.mark.slow
def test_the_lab_before_and_after_a_trace(toys: Server, open_page: Callable[..., Page]) -> None:
    """Nothing can be changed in a trace; then, in a model, it can. The bar stays one line."""
    page = open_page(toys.address("lab"))
    settle(page)
    high = page.locator("#bar").bounding_box()
    text = "The pizza came out of the oven and it tasted good!"
    drop(page, toys.trace("toy-encoder", text).to_bytes())
    expect(page.get_by_label("Model", exact=True)).to_contain_text("trace:")
    assert page.locator("#bar").bounding_box() == high
    page.keyboard.press("8")
    nothing = page.get_by_role("heading", name="Nothing can be changed here")
    expect(nothing).to_be_visible()
    page.keyboard.press("m")
    expect(page.get_by_label("Another word")).to_be_visible()
    expect(nothing).to_be_hidden()


@pytest.mark.slow
def test_checkpoints_of_a_run(strangers: Server, open_page: Callable[..., Page]) -> None:
    """The slider moves through them; each shows its own weights; the curve is there."""
    model = strangers.model("run")
    page = open_page(strangers.address("training", m=model, l=1, h=2, x="the cat"))
    settle(page)
    expect(
        page.get_by_role("img", name=re.compile("Loss by step: from 4.90 to 1.50"))
    ).to_be_visible()
    seen = []
    for key in ("b", "b", "n"):
        page.keyboard.press(key)
        step = {"b": ["30", "20"], "n": ["30"]}[key][len(seen) % 2 if key == "b" else 0]
        run = drawn(page, CHECKPOINT, step)[0]
        weights = strangers.tensor(f"runs/{run}/head/decoder/1/2?view=raw")
        assert_painted(page, CHECKPOINT, table(page), weights)
        seen.append(weights.tobytes())
    assert seen[0] != seen[1] and seen[0] == seen[2]
    chart = pixels(page, ".losses canvas")
    assert (chart[..., 3] > 0).mean() > 0.002
    page.goto(strangers.address("compare", m=model, cp=10, bs=30, x="the cat"))
    settle(page)
    one, two, *_ = drawn(page, "[aria-label='The difference'] canvas")
    values = strangers.tensor(f"difference/{one}/{two}/head/decoder/0/0")
    assert_painted(page, "[aria-label='The difference'] canvas", signed(page), values)


def test_a_run_is_followed(strangers: Server, home: Path, open_page: Callable[..., Page]) -> None:
    """What it writes while it goes on comes to the page: the curve, and a checkpoint more."""
    page = open_page(strangers.address("training", m=strangers.model("run"), x="the cat"))
    settle(page)
    expect(page.get_by_text("the run is training")).to_be_visible()
    slider = page.get_by_label("Checkpoint", exact=True)
    expect(slider).to_have_attribute("max", "2")
    metrics, saved = home / "run" / "metrics.jsonl", home / "run" / "checkpoints"
    before, newest = metrics.read_bytes(), saved / "step-00000040"
    try:
        shutil.copytree(saved / "step-00000030", newest)
        metrics.write_bytes(before + b'{"step": 44, "loss": 0.5}\n')
        expect(slider).to_have_attribute("max", "3")
        expect(slider).to_have_value("3")
        expect(page.get_by_role("img", name=re.compile("at step 44$"))).to_be_visible()
        drawn(page, ".losses canvas", "36")  # points
    finally:
        metrics.write_bytes(before)
        shutil.rmtree(newest)


def test_the_python_on_a_small_screen(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("lab", off="encoder.0.1"), width=390, height=844)
    settle(page)
    high, shown = page.locator(".python .code").evaluate("(e) => [e.scrollHeight, e.clientHeight]")
    assert high == shown > 150


def test_what_cannot_be_is_one_line(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("training"))
    expect(page.get_by_role("heading", name="This model came without its training")).to_be_visible()


SNAPSHOTS = {
    "lab": """
      - heading "What if?" [level=1]
      - region "Change something":
        - group "Tokens of the encoder":
          - button "deposited"
        - button "Mask it"
        - textbox "Another word"
        - button "Swap"
        - button "Switch off"
        - textbox "Another sentence"
        - button "Read"
      - region "What changes in the picture":
        - group "layer"
        - group "head"
      - region "Predictions"
      - region "Changes":
        - button "Undo" [disabled]
        - button "Redo" [disabled]
      - region "The same in Python"
    """,
    "compare": """
      - heading "What is different?" [level=1]
      - combobox "compare with"
      - textbox "Second sentence"
      - button "Compare"
      - region "The first"
      - region "The second"
      - region "The difference"
      - region "Predictions of both":
        - table "Best answers of the two"
    """,
    "training": """
      - heading "How did it learn this?" [level=1]
      - region "Loss":
        - img /Loss by step/
      - slider "Checkpoint"
      - region "Weights at this checkpoint"
      - region "Predictions"
    """,
}


@pytest.mark.parametrize("name", mostly_slow(PAGES))
def test_by_ear_and_by_tab(
    studios: dict[str, Server], open_page: Callable[..., Page], name: str
) -> None:
    server = studios["folders" if name == "training" else "toys"]
    model = server.model("run" if name == "training" else "toy encoder")
    page = open_page(
        server.address(name, m=model, **({"x": "the cat"} if name == "training" else {}))
    )
    settle(page)
    expect(page.get_by_role("main")).to_match_aria_snapshot(SNAPSHOTS[name])
    assert page.evaluate(NAMELESS) == []
    check_by_tab(page)
    for width, height in ((1280, 720), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width > 1000:
            assert page.evaluate("document.documentElement.scrollHeight") <= height


class Liar(Mouth):
    """Also in Python, and about changes."""

    def __init__(self, server: Server, words: Sequence[str]) -> None:
        super().__init__(server, words)

        def python(answer: dict[str, Any]) -> None:
            answer["code"] = self.words[13]

        self.acts = {"python": python, "changes": lambda answer: None, **self.acts}


def seen(page: Page, server: Server, words: Sequence[str]) -> list[Counter[str]]:
    page.unroute_all()
    page.route(lambda url: "/api/" in url and "/head/" not in url, Liar(server, words))
    found = []
    for name in ("lab", "compare"):
        page.goto(server.url + "icon.svg")
        text = "I deposited [MASK] in the bank."
        given = {"lab": "from", "compare": "o"}[name]
        page.goto(server.address(name, m="toy-encoder", off="encoder.0.1", **{given: text}))
        settle(page)
        found.append(Counter(page.evaluate(TAGS)))
    return found


def test_hostile_words(toys: Server, open_page: Callable[..., Page]) -> None:
    """Tokens, names, guesses and Python of markup build the same page as those of words."""
    page = open_page(toys.url)
    settle(page)  # a request that is under way when its route changes is never answered
    assert seen(page, toys, HOSTILE) == seen(page, toys, BENIGN)
    assert page.locator("script").count() == 1


def test_hostile_words_of_the_user(
    strangers: Server,
    open_page: Callable[..., Page],
    open_file: Callable[..., Page],
    tmp_path: Path,
) -> None:
    """In the address, on the page, and in the file that is taken away."""
    text = "</script><script>alert(1)</script>"
    model = strangers.model("gpt2")
    state = {"m": model, "x": text, "from": "<b>"}
    page = open_page(strangers.address("lab", sw="decoder.3.%22%3E%3Cb", **state))
    expect(page.get_by_role("alert")).to_contain_text("tokens here")
    page.goto(strangers.address("lab", **{**state, "sw": "decoder.3.b", "from": "<img src=x>"}))
    settle(page)
    path = taken(page, "HTML", tmp_path)
    alone = open_file(path.as_uri())
    drawn(alone, ".page-lab .cells canvas")
    assert alone.locator("script").count() == 2 and alone.locator("img").count() == 1


def test_a_word_is_swapped_where_it_is_chosen(toys: Server, open_page: Callable[..., Page]) -> None:
    """The form is the same for every token: it must not remember the one before."""
    page = open_page(toys.address("lab", m="toy-decoder", x="man ordered the", q=1))
    settle(page)
    sentence = page.get_by_role("group", name="Tokens of the decoder")
    sentence.get_by_role("button", name="ordered").click()
    expect(page.locator(".change h3").first).to_have_text("“ordered”")
    page.get_by_label("Another word").fill("sat")
    page.get_by_role("button", name="Swap").click()
    expect(page).to_have_url(re.compile(r"sw=decoder\.2\.sat"))
