"""Generate, Layers and Positions: pixels and lines stand where the server's numbers say."""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from browser.screens import Bytes, Server, drawn, nearest_bytes, painted, pixels, table
from sampling import mostly_slow

LOOKING, LENS = ".looking .matrix-pane canvas", ".lens .matrix-pane canvas"
PLACES = ".page-positions .matrix-pane canvas"
BEFORE, AFTER = (f".page-shuffle > :nth-child({n}) .matrix-pane canvas" for n in (2, 3))
POINTS = """(selector) => [...document.querySelectorAll(selector)].map((line) =>
  line.getAttribute("points").split(" ").map((pair) => pair.split(",").map(Number)))"""
MODELS = [("toys", "toy decoder"), ("folders", "marian")]


def same(page: Page, selector: str, theme: str, values: Bytes) -> bool:
    found = pixels(page, selector)
    tall, wide = (found.shape[i] // values.shape[i] for i in (0, 1))
    return np.array_equal(found, painted(table(page, theme), values, wide, tall))


def straight(points: Any, values: Any) -> None:
    """A curve's heights are its numbers, but for where the scale begins and how long it is."""
    x, y = np.array(points).T
    steps = np.diff(x)
    assert np.abs(steps - steps.mean()).max() < 0.011
    slope, zero = np.polyfit(values, y, 1)
    assert slope < 0 and np.abs(slope * np.array(values) + zero - y).max() < 0.011


@pytest.mark.parametrize(("studio", "name"), mostly_slow(reversed(MODELS)))
def test_generate(
    studios: dict[str, Server], open_page: Callable[..., Page], studio: str, name: str
) -> None:
    server = studios[studio]
    model = server.model(name)
    page = open_page(server.address("generate", m=model, n=8))
    drawn(page, LOOKING)
    ask = {"model": model, "text": page.locator("#text").input_value(), "max_new_tokens": 8}
    row = server.json("generations", {**ask, "taken": []})
    stacks = ["decoder", "cross"] if row["source"] else ["decoder"]
    for theme, stack in ((theme, stack) for theme in ("light", "dark") for stack in stacks):
        page.emulate_media(color_scheme=theme)
        if len(stacks) > 1:
            page.get_by_label("Looks at", exact=True).select_option(stack)
        for head in ("2", "mean"):
            page.get_by_label("Head", exact=True).select_option(head)
            page.get_by_label("Layer", exact=True).select_option("1")
            drawn(page, LOOKING, row["generation"], stack, "1", head, theme)
            which = "" if head == "mean" else f"?head={head}"
            weights = server.tensor(f"generations/{row['generation']}/attention/{stack}/1{which}")
            assert weights.max() > 0 and same(page, LOOKING, theme, weights)
    shown = page.locator(".chances tbody tr").all_inner_texts()
    for text, each in zip(shown, row["steps"][0]["top"], strict=True):
        assert (f"{each['p'][0]:.2f}" if each["p"][0] >= 0.005 else "<0.01") in text
    page.keyboard.press("n")
    facts = page.locator(".facts").inner_text()
    cache = row["steps"][1]["cache"]
    assert f"{cache['bytes']:,} bytes" in facts and f"{row['room']['reserved']:,} bytes" in facts
    cells = page.locator(".store").first.locator("i")
    states = [each.get_attribute("class") for each in cells.all()]
    assert states.count("new") == 1 and states.count("old") == cache["kept"] - 1
    assert len(states) == row["room"]["capacity"]


@pytest.mark.slow
def test_another_word_is_taken(toys: Server, open_page: Callable[..., Page]) -> None:
    """A branch stands in the address; reload and back find it again."""
    translator = {"m": toys.model("toy translator")}
    page = open_page(toys.address("generate", **translator))
    drawn(page, LOOKING)
    text = page.get_by_role("group", name="The text: choose a word")
    expect(text).to_contain_text("сел")
    text.get_by_role("button", name="сел").click()
    page.get_by_role("button", name="лёг", exact=True).click()
    expect(text).to_have_text(re.compile("лёг"))
    expect(page.locator(".note.now")).to_have_text("your choice")
    expect(page).to_have_url(re.compile(r"took=1-\d+&g=1"))
    page.reload()
    expect(text).to_have_text(re.compile("лёг"))
    page.keyboard.press("6")
    expect(page.get_by_role("heading", level=1)).to_have_text("When is the answer decided?")
    page.go_back()
    expect(text).to_have_text(re.compile("лёг"))
    page.get_by_role("button", name="Reset").click()
    expect(text).to_have_text(re.compile("сел"))


@pytest.mark.slow
def test_what_is_cut_and_by_what(toys: Server, open_page: Callable[..., Page]) -> None:
    state = {"m": toys.model("toy decoder"), "how": "sample", "temp": 1.5, "k": 4, "p": 0.5}
    page = open_page(toys.address("generate", **state))
    drawn(page, LOOKING)
    ask = {
        "model": state["m"], "text": page.locator("#text").input_value(), "max_new_tokens": 12,
        "taken": [], "do_sample": True, "temperature": 1.5, "top_k": 4, "top_p": 0.5, "seed": 0,
    }  # fmt: skip
    row = toys.json("generations", ask)
    heads = page.locator(".chances thead th").all_inner_texts()
    assert heads[1:5] == ["model", "temperature 1.5", "top-k 4", "top-p 0.5"]
    rows = page.locator(".chances tbody tr")
    for i, each in enumerate(row["steps"][0]["top"]):
        told = rows.nth(i).locator("td").last.inner_text()
        name = None if each["cut"] is None else ("temperature", "top-k", "top-p")[each["cut"]]
        assert told == ("chosen" if each["id"] == row["steps"][0]["token"] else f"cut by {name}")
    before = page.url
    page.get_by_role("button", name="Resample").click()
    page.get_by_role("button", name="Resample").click()
    expect(page).to_have_url(re.compile("seed=2"))
    assert before != page.url
    slider = page.get_by_label("temperature", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("temp=1.6"))


def test_the_tree_of_a_search(toys: Server, open_page: Callable[..., Page]) -> None:
    """Every node, its sum, its state; one of the texts found can be walked through."""
    model = toys.model("toy translator")
    page = open_page(toys.address("generate", m=model, how="beam", nb=3))
    page.locator(".tree .node").first.wait_for()
    ask = {"model": model, "text": page.locator("#text").input_value(), "max_new_tokens": 12}
    row = toys.json("generations", {**ask, "num_beams": 3})
    nodes = row["beams"]["nodes"]
    shown = page.locator(".tree .node")
    assert shown.count() == len(nodes)
    for each, text, kind in zip(
        nodes, shown.locator(".sum").all_text_contents(),
        shown.evaluate_all("(all) => all.map((each) => each.classList[1])"), strict=True,
    ):  # fmt: skip
        number = each["sum"] if each["score"] is None else each["score"]
        assert text.removeprefix("score ") == f"{number:.3f}".replace("-", "−")
        assert kind == each["state"]
    assert page.locator(".edge").count() == sum(each["parent"] is not None for each in nodes)
    scores = page.locator(".results tbody td:nth-child(2)").all_inner_texts()
    assert scores == [f"{each['score']:.3f}".replace("-", "−") for each in row["beams"]["best"]]
    page.locator(".tree .node").nth(8).click()
    expect(page.get_by_role("heading", name=re.compile("Step 2: 6 candidates"))).to_be_visible()
    page.get_by_role("button", name=re.compile("Step through")).nth(1).click()
    drawn(page, LOOKING)
    text = page.get_by_role("group", name="The text: choose a word").inner_text()
    assert row["beams"]["best"][1]["text"].split() == re.findall("[а-яё]+", text)


@pytest.mark.slow
def test_a_translation_that_was_cut(toys: Server, open_page: Callable[..., Page]) -> None:
    """It is said where; of one that came to its end nothing is said."""

    def cut(route: Route) -> None:
        answer = toys.json("runs", json.loads(route.request.post_data or ""))
        answer["predictions"]["complete"] = False
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    ask = {"model": toys.model("toy translator"), "text": "the cat sat on the mat"}
    run = toys.json("runs", ask)
    assert run["predictions"]["complete"]
    told = f"Cut at {len(run['tokens']['queries']['decoder']) - 1} tokens"
    for was in (False, True):
        page = open_page(toys.address("translate", m=ask["model"], x=ask["text"]))
        if was:
            page.route("**/api/runs", cut)
            page.reload()
        for link, region in (("Translate", "The translation"), ("Map", "Predictions")):
            page.get_by_role("link", name=link, exact=True).click()
            card = page.get_by_role("region", name=region)
            expect(card).to_contain_text(run["predictions"]["text"])
            expect(card.get_by_text(told)).to_have_count(int(was))


def test_models_that_do_not_write(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("generate", m=toys.model("toy encoder")))
    expect(page.get_by_role("heading", level=2)).to_have_text("This model writes no text")
    page.get_by_role("button", name="toy decoder").click()
    drawn(page, LOOKING)


@pytest.mark.parametrize("name", mostly_slow(["toy encoder", "toy translator"]))
def test_layers(toys: Server, open_page: Callable[..., Page], name: str) -> None:
    page = open_page(toys.address("layers", m=toys.model(name)))
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        run = drawn(page, LENS, theme)[0]
        found = toys.json(f"runs/{run}/lens")
        assert same(page, LENS, theme, nearest_bytes(found["p"]).T)
    token = page.locator(".page-layers .strip [aria-pressed=true]").get_attribute("title")
    at = int((token or "").removeprefix("token "))
    (curve,) = page.evaluate(POINTS, ".lens-at .curve")
    straight(curve, [row[at] for row in found["kl"]])
    bits = page.locator(".lensed tbody td:nth-child(5)").all_inner_texts()
    assert bits == [f"{row[at]:.2f}" for row in found["kl"]]


def test_what_adds_to_the_logit(toys: Server, open_page: Callable[..., Page]) -> None:
    """Bars as long as the numbers, and a click on a head opens it."""
    page = open_page(toys.address("layers", m=toys.model("toy translator"), q=2))
    run = drawn(page, LENS)[0]
    found = toys.json(f"runs/{run}/parts/2")
    page.get_by_role("button", name="by part").click()
    expect(page.locator(".adding tbody th").first).to_have_text(found["parts"][0]["name"])
    shares = page.locator(".adding .bar").evaluate_all(
        "(bars) => bars.map((bar) => +bar.style.getPropertyValue('--p')"
        " * (bar.classList.contains('minus') ? -1 : 1))"
    )
    values = [part["value"] for part in found["parts"]]
    assert shares == pytest.approx([value / abs(values[0]) for value in values], abs=1e-6)
    heads = [part for part in found["parts"] if part["head"] is not None]
    page.get_by_role("link", name=heads[0]["name"], exact=True).click()
    expect(page).to_have_url(re.compile(rf"head.*in={heads[0]['stack']}"))


def test_two_sentences(toys: Server, open_page: Callable[..., Page]) -> None:
    """The two banks: the other sentence is written beside, and stands in the address."""
    model = toys.model("toy encoder")
    texts = ("I sat by the river bank.", "I deposited money in the bank.")
    page = open_page(toys.address("layers", m=model, x=texts[0], q=6))
    page.get_by_label("Another sentence").fill(texts[1])
    page.keyboard.press("Enter")
    mates = page.get_by_role("group", name="The word of the other sentence")
    expect(mates).to_contain_text("money")  # not the example that stood there before
    expect(mates.get_by_role("button", name="bank")).to_have_attribute("aria-pressed", "true")
    runs = [toys.json("runs", {"model": model, "text": text, "second": None, "off": []})["run"]
            for text in texts]  # fmt: skip
    found = toys.json(f"runs/{runs[0]}/trajectory/encoder/6?other={runs[1]}&mate=6")
    curves = page.evaluate(POINTS, ".trajectory .curve")
    for points, name in zip(curves, ("to_start", "to_end", "between"), strict=True):
        straight(points, found[name])
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    expect(page).to_have_url(re.compile("o=I.deposited.*om=0"))


def test_layers_of_a_long_text(strangers: Server, open_page: Callable[..., Page]) -> None:
    """Its words have some lines and are scrolled there; the pictures keep their room."""
    text = " ".join(["xyz"] * 62)
    state = {"m": strangers.model("bert"), "x": text, "o": text, "q": 60, "om": 60}
    page = open_page(strangers.address("layers", **state))
    drawn(page, LENS)
    words = page.locator(".page-layers .strip")
    expect(words).to_have_count(2)
    for strip in words.all():
        high, shown, from_top = strip.evaluate("""(strip) => [
          strip.scrollHeight, strip.clientHeight,
          strip.querySelector("[aria-pressed=true]").getBoundingClientRect().top
            - strip.getBoundingClientRect().top]""")
        assert -1 < from_top < shown < high and shown < 100
    inside = """() => [".trajectory .plot", ".trajectory"].map((each) =>
      document.querySelector(each).getBoundingClientRect().bottom)"""
    plot, card = page.evaluate(inside)
    assert plot < card


@pytest.mark.slow
def test_a_page_that_waits_says_so(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    main = page.get_by_role("main")
    expect(main).to_have_attribute("aria-busy", "false")
    held: list[Route] = []
    page.route("**/api/runs", lambda route: held.append(route))
    page.locator("#text").fill("I ate the apple")
    page.keyboard.press("Enter")
    expect(main).to_have_attribute("aria-busy", "true")
    page.wait_for_function(
        """() => getComputedStyle(document.querySelector("#page"), "::after").opacity === "1" """
    )
    held[0].continue_()
    expect(main).to_have_attribute("aria-busy", "false")


def test_another_sentence_that_is_too_long(toys: Server, open_page: Callable[..., Page]) -> None:
    """It is one line beside its box; all the rest is there."""
    page = open_page(toys.address("layers", o="the " * 99))
    way = page.get_by_role("region", name="Trajectory of a word")
    expect(way).to_contain_text("shorten it")
    expect(way.locator(".cosines tbody tr").first.locator("td")).to_have_count(2)
    expect(page.locator(".lensed tbody tr")).to_have_count(5)
    drawn(page, ".lens canvas", "lens")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_model_without_words_says_so(strangers: Server, open_page: Callable[..., Page]) -> None:
    evil = strangers.model("<img src=x onerror=alert(1)>")
    page = open_page(strangers.address("layers", m=evil, x="the cat sat"))
    expect(page.locator(".lens")).to_contain_text("This model predicts no words")
    expect(page.locator(".cosines")).to_be_visible()
    expect(page.locator(".lens-at")).to_be_hidden()


def test_positions(studios: dict[str, Server], open_page: Callable[..., Page]) -> None:
    """The slides' waves, a learned table, and Marian's own sines; curves, matrix, similarity."""
    for studio, name, show in (
        ("toys", "toy encoder", "lecture"), ("toys", "toy encoder", "model"),
        ("folders", "marian", "model"),
    ):  # fmt: skip
        server = studios[studio]
        model = server.model(name)
        page = open_page(server.address("positions", m=model, show=show, pos=3), theme="dark")
        drawn(page, PLACES, show)
        path = "positions" if show == "lecture" else f"positions/{model}/encoder"
        found = server.json(path)
        values = np.array(found["values"])
        most = np.quantile(np.abs(values), 0.99, method="lower")
        wanted = np.floor(255 * (np.clip(values / most, -1, 1) + 1) / 2 + 0.5).astype(np.uint8)
        assert same(page, PLACES, "dark", wanted)
        curves = page.evaluate(POINTS, ".squiggles .curve")
        names = page.locator(".squiggles text").all_text_contents()
        columns = [int(each.removeprefix("index ")) for each in names if each.startswith("index")]
        assert len(curves) == len(columns) >= 4
        middles = page.locator(".squiggles .grid").evaluate_all(
            "(all) => all.map((each) => Number(each.getAttribute('y1')))"
        )
        sizes = []
        for points, column, middle in zip(curves, columns, middles, strict=True):
            straight(points, values[:, column])
            sizes.append(np.abs(np.array(points)[:, 1] - middle).max())
        if found["kind"] == "learned":  # each on its own scale
            assert np.ptp(sizes) < 0.011
        (curve,) = page.evaluate(POINTS, "[aria-label=Similarity] .curve")
        straight(curve, found["similar"][3])


def changed(before: Any, after: Any) -> float:
    """By how much at least: a word that is not listed is no likelier than the last one that is."""
    one, two = ({each["text"]: each["p"] for each in top} for top in (before, after))
    least = {word: p - min(p, min(two.values())) for word, p in one.items() if word not in two}
    least |= {word: p - min(p, min(one.values())) for word, p in two.items() if word not in one}
    return float(
        max(0, *least.values(), *(abs(one[word] - two[word]) for word in one.keys() & two))
    )


@pytest.mark.parametrize("flat", mostly_slow([1, 0]))
def test_shuffle_the_words(toys: Server, open_page: Callable[..., Page], flat: int) -> None:
    model = toys.model("toy encoder")
    page = open_page(toys.address("positions", m=model, show="shuffle", l=1, h=2, flat=flat))
    name = drawn(page, AFTER)[0]
    before, after = (
        toys.tensor(f"shuffles/{name}/{when}/encoder/1/2") for when in ("before", "after")
    )
    assert same(page, BEFORE, "light", before) and same(page, AFTER, "light", after)
    assert np.array_equal(before, after) == bool(flat)
    words = page.locator(".page-shuffle .words").all_inner_texts()
    assert sorted(words[0].split()[1:]) == sorted(words[1].split()[1:])
    run = toys.json("runs", {"model": model, "text": page.locator("#text").input_value()})["run"]
    found = toys.json("shuffles", {"run": run, "seed": 1, "positions": not flat})
    most = changed(*(found[each]["at"][0]["top"] for each in ("predictions", "predictions_after")))
    told = "Without positions nothing changes" if flat else f"by {most:.2f} or more"
    expect(page.locator(".page-shuffle")).to_contain_text(told)
    page.get_by_role("button", name="Shuffle again").click()
    expect(page).to_have_url(re.compile("sh=2"))
    page.wait_for_function("(was) => !document.querySelector('#live').textContent.includes(was)",
                           arg=" ".join(words[1].split()[2:-1]))  # fmt: skip
    page.locator("#text").fill("I")
    page.keyboard.press("Enter")
    expect(page.locator(".page-shuffle")).to_contain_text("there is nothing to shuffle")
