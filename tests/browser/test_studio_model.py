"""The page Model: its numbers, its parts and where they lead, the sweep, and its room."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from browser.screens import Server, settle
from sampling import every_nth, mostly_slow

MODELS = ("toy encoder", "toy decoder", "toy translator")
LABELS = """() => Object.fromEntries([...document.querySelectorAll(".tower [data-at]")]
  .map((each) => [each.dataset.at, [each.ariaLabel, each.querySelector(".guess")?.textContent]]))"""
DIGITS = """async (values) => {
  const { number, share, visible } = await import("./dom.js");
  const say = { number, share, visible };
  return values.map(([how, value]) => say[how](value));
}"""
WIDTHS = """() => [...document.querySelectorAll(".tower .block .rail")]
  .map((each) => each.getBoundingClientRect().width / each.parentElement.clientWidth)"""
WIDE = "document.documentElement.scrollWidth > innerWidth"
CUT = """() => [...document.querySelectorAll(".curtain:not([hidden])")]
  .map((each) => each.getBoundingClientRect().top)"""


def opened(page: Page, server: Server) -> tuple[str, dict[str, Any]]:
    """The run on the screen and its numbers."""
    found = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    runs = [re.search(r"/runs/(\w+)/network", each) for each in found]
    run = [each[1] for each in runs if each][-1]
    return run, server.json(f"runs/{run}/network")


@pytest.mark.parametrize("name", mostly_slow(reversed(MODELS)))
def test_every_number_is_the_servers(
    toys: Server, open_page: Callable[..., Page], name: str
) -> None:
    """Norms, what MLPs and attention add, guesses and output: to the shown digits."""
    page = open_page(toys.address("model", m=toys.model(name)), width=1920, height=1400)
    settle(page)
    run, network = opened(page, toys)
    guesses = toys.json(f"runs/{run}/guesses")
    told = {each["layer"]: row for each, row in zip(
        guesses["points"], guesses["guesses"], strict=True)}  # fmt: skip
    labels = page.evaluate(LABELS)
    shown, expected = [], []
    last = network["stacks"][-1]["name"]
    for stack in network["stacks"]:
        for point, norms, added in zip(*(stack[k] for k in ("points", "norm", "added")),
                                       strict=True):  # fmt: skip
            layer = -1 if point["layer"] is None else point["layer"]
            for t, norm in enumerate(norms):
                label, word = labels[f"{stack['name']}.{point['part']}.{layer}.{t}"]
                shown.append(re.search(r"norm ([^,]+)", label)[1])  # type: ignore[index]
                expected.append(["number", norm])
                part = "mlp" if point["part"] == "block" else point["part"]
                if added is not None:
                    label, _ = labels[f"{stack['name']}.{part}.{layer}.{t}"]
                    shown.append(re.search(r"adds ([^,]+)", label)[1])  # type: ignore[index]
                    expected.append(["number", added[t]])
                if point["part"] in ("block", "embedding"):
                    guess = told[point["layer"]][t] if stack["name"] == last else None
                    shown.append(word)
                    expected.append(["visible", guess["text"]] if guess else ["number", norm])
    assert len(shown) > 40 and shown == page.evaluate(DIGITS, expected)


def test_a_rails_width_is_the_root_of_its_norm(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(toys.address("model", m="toy-decoder"))
    settle(page)
    (stack,) = opened(page, toys)[1]["stacks"]
    rows = [norms for point, norms in zip(stack["points"], stack["norm"], strict=True)
            if point["part"] == "block"]  # fmt: skip
    most = max(max(norms) for norms in stack["norm"])
    expected = [0.62 * (norm / most) ** 0.5 for norms in rows for norm in norms]
    assert page.evaluate(WIDTHS) == pytest.approx(expected, abs=0.01)


PARTS = {  # what is opened from each part: page, and its state
    "decoder.token.-1.1": ("lab", {"q": "1", "in": "decoder"}),
    "decoder.attention.1.2": ("head", {"q": "2", "in": "decoder", "l": "1", "w": "mean"}),
    "decoder.cross.1.-1": ("head", {"in": "cross", "l": "1", "w": "mean"}),
    "decoder.mlp.1.2": ("numbers", {"q": "2", "in": "decoder", "l": "1"}),
    "encoder.block.1.3": ("layers", {"q": "3", "in": "encoder", "l": "1", "side": "encoder"}),
    "decoder.out.-1.2": ("layers", {"q": "2", "in": "decoder", "side": "decoder"}),
}


@pytest.mark.parametrize("at", every_nth(PARTS, 4))
def test_a_part_opens_its_page(toys: Server, open_page: Callable[..., Page], at: str) -> None:
    """By Enter, with the selection; a click only chooses."""
    page = open_page(toys.address("model", m="toy-translator"))
    settle(page)
    part = page.locator(f"[data-at='{at}']")
    part.click()
    settle(page)
    assert "#/model" in page.url
    part.focus()
    page.keyboard.press("Enter")
    name, state = PARTS[at]
    expect(page).to_have_url(re.compile(f"#/{name}"))
    settle(page)
    expect(page.get_by_role("alert")).to_be_hidden()
    found = page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.split('?')[1]))")
    assert state.items() <= found.items()


def test_links_of_the_choice(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.url)
    settle(page)
    page.locator("[data-at='encoder.block.1.3']").click()
    expect(page.locator(".chosen-part h2")).to_contain_text("in layer 1")
    for name in ("Head", "Numbers", "Neurons", "Layers", "Lab"):
        href = page.locator(".chosen-part").get_by_role("link", name=name).get_attribute("href")
        assert href and href.startswith(f"#/{name.lower()}?") and "l=1" in href and "q=3" in href
    page.get_by_role("link", name="L1·H2").click()
    expect(page).to_have_url(re.compile("#/head.*l=1&h=2&q=3"))


def test_by_keyboard(toys: Server, open_page: Callable[..., Page]) -> None:
    """Each tower is one stop of Tab; arrows go from part to part; Space chooses."""
    page = open_page(toys.address("model", m="toy-translator"))
    settle(page)
    assert page.locator(".tower [tabindex='0']").count() == 2
    page.locator("[data-at^='decoder.'][tabindex='0']").focus()
    at = page.evaluate("document.activeElement.dataset.at")
    assert at == "decoder.block.0.1"
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(":focus")).to_have_attribute("data-at", "decoder.cross.1.2")
    page.keyboard.press("Space")
    expect(page.locator(".chosen-part h2")).to_contain_text("in layer 1")
    expect(page.locator(":focus")).to_have_attribute("data-at", "decoder.cross.1.2")
    assert page.locator(".crossings path").count() > 0
    for _ in range(9):
        page.keyboard.press("ArrowUp")
    expect(page.locator(":focus")).to_have_attribute("data-at", "decoder.token.-1.2")


def test_the_sweep(toys: Server, open_page: Callable[..., Page]) -> None:
    """In steps for those who want no motion; else it plays, and can be stopped."""
    page = open_page(toys.address("model", m="toy-decoder"))
    settle(page)
    page.get_by_role("button", name="Step through").click()
    places = []
    for _ in range(4):
        places += page.evaluate(CUT)
        page.get_by_role("button", name="Next layer").click()
    expect(page.locator(".curtain")).to_have_count(0)
    assert len(places) == 4 and places == sorted(set(places))  # embedding, two layers, output
    expect(page.get_by_role("button", name="Step through")).to_be_focused()
    page.emulate_media(reduced_motion="no-preference")
    page.reload()
    settle(page)
    page.get_by_role("button", name="Play").click()
    (animation,) = page.evaluate(
        "document.querySelector('.curtain').getAnimations().map((each) => each.effect.getTiming())"
    )
    assert animation["duration"] == 3000
    page.get_by_role("button", name="Stop").click()
    expect(page.locator(".curtain")).to_have_count(0)
    page.get_by_role("button", name="Play").click()
    page.evaluate("document.getAnimations().forEach((each) => each.finish())")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    expect(page.locator(".curtain")).to_have_count(0)


@pytest.mark.parametrize("name", mostly_slow(reversed(MODELS)))
def test_a_phone_scrolls_the_drawing_and_not_the_page(
    toys: Server, open_page: Callable[..., Page], name: str
) -> None:
    page = open_page(toys.address("model", m=toys.model(name)), width=390, height=844)
    settle(page)
    assert not page.evaluate(WIDE)


def test_long_texts_scroll(strangers: Server, open_page: Callable[..., Page]) -> None:
    text = " ".join(["xyz"] * 60)
    page = open_page(strangers.address("model", m=strangers.model("bert"), x=text, q=58))
    settle(page)
    assert not page.evaluate(WIDE)
    room = page.locator(".drawing .scroll").bounding_box()
    chosen = page.locator(".token-row .of-token").bounding_box()
    assert room and chosen and chosen["x"] + chosen["width"] <= room["x"] + room["width"] + 1


def deepened(answer: dict[str, Any], layers: int) -> dict[str, Any]:
    """The same stack, as often as needed: its last layer again and again."""
    for stack in answer["stacks"]:
        each = [n for n, point in enumerate(stack["points"]) if point["layer"] == 1]
        for layer in range(2, layers):
            for n in each:
                stack["points"].append({**stack["points"][n], "layer": layer})
                stack["norm"].append(stack["norm"][n])
                stack["added"].append(stack["added"][n])
    return answer


def test_deep_models_fold(toys: Server, open_page: Callable[..., Page]) -> None:
    """A folded layer is one row; the chosen one has all of its parts."""
    page = open_page(toys.address("model", m="toy-decoder"))
    settle(page)
    made = """async ([stack, chosen]) => (await import("./tower.js")).rowsOf(stack, chosen)"""
    (stack,) = deepened(opened(page, toys)[1], 30)["stacks"]
    rows = page.evaluate(made, [stack, 12])
    assert len(rows) == 1 + 29 + 3
    assert [row["part"] for row in rows if row["layer"] == 12] == ["attention", "mlp", "block"]
    assert all(row["folded"] == (row["layer"] not in (12, -1)) for row in rows)
    assert len(page.evaluate(made, [opened(page, toys)[1]["stacks"][0], 0])) == 1 + 2 * 3


def test_only_what_is_in_sight_is_drawn(strangers: Server, open_page: Callable[..., Page]) -> None:
    """Scrolled, it is the rest; its numbers are the server's, and the stop of Tab stays."""
    text = " ".join(["xyz"] * 60)
    page = open_page(strangers.address("model", m=strangers.model("bert"), x=text, q=1))
    settle(page)
    grid = page.get_by_role("grid")
    tokens = int(grid.get_attribute("aria-colcount") or 0) - 1
    (stack,) = opened(page, strangers)[1]["stacks"]
    assert tokens == len(stack["norm"][0]) > 60
    cells = page.locator("[data-at^='encoder.embedding.']")
    assert 5 < cells.count() < 30
    stop = page.locator(".tower [tabindex='0']")
    first = stop.get_attribute("data-at")
    page.evaluate("document.querySelector('.drawing .scroll').scrollLeft = 1e6")
    last = page.locator(f"[data-at='encoder.embedding.-1.{tokens - 1}']")
    expect(last).to_have_attribute("aria-colindex", str(tokens + 1))
    (norm,) = page.evaluate(DIGITS, [["number", stack["norm"][0][-1]]])
    expect(last).to_have_attribute("aria-label", re.compile(f"norm {re.escape(norm)}"))
    expect(page.locator("[data-at='encoder.embedding.-1.3']")).to_have_count(0)
    expect(stop).to_have_count(1)
    assert stop.get_attribute("data-at") == first
    order = [int(each) for each in cells.evaluate_all("(all) => all.map((e) => e.ariaColIndex)")]
    assert order == sorted(order)


@pytest.mark.slow
def test_arrows_go_beyond_what_is_in_sight(
    strangers: Server, open_page: Callable[..., Page]
) -> None:
    text = " ".join(["xyz"] * 60)
    page = open_page(strangers.address("model", m=strangers.model("bert"), x=text, q=0))
    settle(page)
    page.locator(".tower [tabindex='0']").focus()
    row = page.evaluate("document.activeElement.dataset.at").rpartition(".")[0]
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("data-at", f"{row}.40")
    room, box = page.locator(".drawing .scroll").bounding_box(), focused.bounding_box()
    assert room and box and room["x"] < box["x"] < room["x"] + room["width"]


def test_a_trace_without_vectors_says_so(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("model", m="toy-decoder"))
    settle(page)
    line = '{"error": "this trace has no vectors"}'
    page.route("**/network", lambda route: route.fulfill(status=400, body=line))
    page.locator("#text").fill("the cat")
    page.keyboard.press("Enter")
    expect(page.locator(".drawing")).to_contain_text("this trace has no vectors")
    expect(page.locator(".drawing .scroll")).to_be_hidden()
