"""Tokens, labels and names are text: 300 hostile ones execute nothing and build nothing."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from playwright.sync_api import Page, expect

from browser.hostile import BENIGN, FOREIGN, HOSTILE, TAGS, Mouth
from browser.screens import Server, drawn
from sampling import mostly_slow

READY = {
    "model": ".chosen-part .parts", "map": ".one-head .measures",
    "head": ".page-head .row table", "numbers": ".step .shown", "translate": ".minis canvas",
}  # fmt: skip
PLACES = [
    *((name, {}, ready) for name, ready in READY.items()),
    ("generate", {"how": "sample"}, ".looking table"),
    ("generate", {"how": "beam"}, ".tree svg"),
    ("layers", {"o": "the cat sat"}, ".cosines"),
    ("positions", {}, ".page-positions .squiggles"),
    ("positions", {"show": "shuffle"}, ".page-shuffle .words"),
    ("space", {}, ".alike"),
    ("space", {"plane": "word"}, ".alike"),
    ("neurons", {}, ".units"),
    ("pooling", {}, ".sheet"),
    ("pooling", {"pool": "variants"}, ".pooled"),
    ("toy", {}, ".sheet"),
    ("causes", {}, ".sheet"),
]
WRITERS = ("translate", "generate")  # pages of models that write
BYTES = (
    "/map/",
    "/mean/",
    "/head/",
    "/attention/",
    "/before/",
    "/after/",
    "/matrix/",
)  # these carry no words


def test_there_are_three_hundred() -> None:
    assert len(set(HOSTILE)) == 300


def seen(
    page: Page, server: Server, words: Sequence[str], model: str, step: int
) -> list[Counter[str]]:
    """The elements of each page when the server speaks these words."""
    page.unroute_all()
    page.route(lambda url: "/api/" in url and not any(part in url for part in BYTES),
               Mouth(server, words))  # fmt: skip
    found = []
    for name, state, ready in PLACES[::step]:
        if name in WRITERS and model != "toy-translator":
            continue
        page.goto(server.url + "icon.svg")
        page.goto(server.address(name, m=model, **state))
        page.locator(ready).first.wait_for()
        page.wait_for_function("() => document.querySelector('#live').textContent")
        found.append(Counter(page.evaluate(TAGS)))
    return found


@pytest.mark.parametrize(
    ("name", "step"), mostly_slow([("toy encoder", 6), ("toy encoder", 1), ("toy translator", 1)])
)
def test_words_of_the_server(
    toys: Server, open_page: Callable[..., Page], name: str, step: int
) -> None:
    """The same elements as with harmless words; what is not allowed fails in `open_page`."""
    page = open_page(toys.url)
    model = toys.model(name)
    hostile = seen(page, toys, HOSTILE, model, step)
    if name == "toy translator":
        names = page.get_by_label("Model", exact=True).locator("option").all_text_contents()
        assert names == HOSTILE
    assert hostile == seen(page, toys, BENIGN, model, step)


@pytest.mark.parametrize("step", mostly_slow([75, 25]))
def test_words_of_the_user(strangers: Server, open_page: Callable[..., Page], step: int) -> None:
    """As a text, and in the address: what comes back is shown as it was written."""
    page = open_page(strangers.address(m=strangers.model("gpt2")))
    drawn(page, ".board canvas")
    for text in HOSTILE[::step]:
        page.goto(strangers.address(m=strangers.model("gpt2"), x=text[:40]))
        expect(page.locator("#text")).to_have_value(text[:40].replace("\n", "").replace("\r", ""))
    assert not set(page.evaluate(TAGS)) & FOREIGN
    assert page.locator("img").count() == 1 and page.locator("script").count() == 1


def test_words_of_a_folder(strangers: Server, open_page: Callable[..., Page]) -> None:
    """A folder whose name and labels are markup."""
    evil = "<img src=x onerror=alert(1)>"
    page = open_page(strangers.address(m=strangers.model(evil), x="the cat sat"))
    drawn(page, ".board canvas")
    expect(page.get_by_label("Model", exact=True)).to_contain_text(evil)
    labels = page.locator("table.values tbody th").all_text_contents()
    assert evil in labels and "<script>alert(2)</script>" in labels
