"""The page is true: each pixel is the colour table at the server's byte, exactly."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from browser.screens import Bytes, Server, drawn, nearest_bytes, painted, pixels, settle, table
from sampling import mostly_slow

MAP, MATRIX = ".board canvas", ".matrix-pane canvas"
MODELS = [("toys", "toy translator"), ("folders", "gpt2"), ("toys", "toy encoder"),
          ("folders", "bert"), ("folders", "marian")]  # fmt: skip


def atlas(colours: Bytes, heads: Bytes, scale: int, gap: int) -> Bytes:
    """All heads of (L, H, r, c), each with a transparent gap below and to the right."""
    rows = []
    for layer in heads:
        cells = [
            np.pad(painted(colours, head, scale), ((0, gap), (0, gap), (0, 0))) for head in layer
        ]
        rows.append(np.concatenate(cells, 1))
    return np.concatenate(rows, 0)


def map_numbers(page: Page) -> tuple[int, int]:
    canvas = page.locator(MAP)
    scale, gap = canvas.get_attribute("data-scale"), canvas.get_attribute("data-gap")
    return int(scale or 0), int(gap or 0)


@pytest.mark.parametrize(("studio", "name"), mostly_slow(MODELS))
def test_map(
    studios: dict[str, Server], open_page: Callable[..., Page], studio: str, name: str
) -> None:
    server = studios[studio]
    page = open_page(server.address(m=server.model(name)))
    run, first, *_ = drawn(page, MAP)
    stacks = page.locator(".choice button").all_text_contents() or [first]
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for stack in stacks:
            if len(stacks) > 1:
                page.get_by_role("button", name=stack, exact=True).click()
            drawn(page, MAP, stack, theme)
            heads = server.tensor(f"runs/{run}/map/{stack}")
            assert heads.max() > 0
            wanted = atlas(table(page, theme), heads, *map_numbers(page))
            assert np.array_equal(pixels(page, MAP), wanted)


def test_a_map_of_a_measure(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address(by="entropy"))
    run, stack, *_ = drawn(page, MAP, "entropy")
    values = np.array(toys.json(f"runs/{run}/measures")["values"][stack]["entropy"])
    low, high = min(0.0, values.min()), values.max()
    shades = np.floor(255 * (values - low) / (high - low) + 0.5).astype(np.uint8)
    rows, columns = toys.tensor(f"runs/{run}/map/{stack}").shape[2:]
    heads = np.broadcast_to(shades[:, :, None, None], (*shades.shape, rows, columns))
    assert np.array_equal(pixels(page, MAP), atlas(table(page), heads, *map_numbers(page)))
    shown = page.locator(".board td button").all_text_contents()
    assert shown == [f"{value:.2f}" for value in values.flat]


def test_a_wrong_pixel_would_be_seen(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address())
    run, stack, *_ = drawn(page, MAP)
    heads = toys.tensor(f"runs/{run}/map/{stack}").copy()
    heads[1, 2, 3, 4] ^= 1
    assert not np.array_equal(pixels(page, MAP), atlas(table(page), heads, *map_numbers(page)))


@pytest.mark.parametrize(
    ("studio", "name", "stack", "views"),
    mostly_slow(
        [
            ("toys", "toy encoder", "encoder", 4),
            ("folders", "gpt2", "decoder", 4),
            ("folders", "marian", "cross", 3),
        ]
    ),
)
def test_head(
    studios: dict[str, Server],
    open_page: Callable[..., Page],
    studio: str,
    name: str,
    stack: str,
    views: int,
) -> None:
    server = studios[studio]
    place = {"m": server.model(name), "in": stack, "l": 1, "h": 2}
    page = open_page(server.address("head", **place), theme="dark")
    for view in ["raw", "value", "rollout", "mean"] if views == 4 else ["raw", "value", "mean"]:
        run = drawn(page, MATRIX, stack, view)[0]
        weights = server.tensor(f"runs/{run}/head/{stack}/1/2?view={view}")
        found = pixels(page, MATRIX)
        scale = found.shape[1] // weights.shape[1]
        assert np.array_equal(found, painted(table(page, "dark"), weights, scale))
        page.keyboard.press("w")
    settle(page)  # all heads, as lines
    page.keyboard.press("w")
    drawn(page, MATRIX, stack, "raw")  # and round again


def test_faint_weights_use_the_same_colours(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("head", faint=1))
    run, stack, *_ = drawn(page, MATRIX)
    weights = toys.tensor(f"runs/{run}/head/{stack}/0/0?view=raw")
    found = pixels(page, MATRIX)
    plain, faint = table(page), table(page, faint=True)
    assert np.array_equal(
        faint, plain[np.floor(np.sqrt(np.arange(256) / 255) * 255 + 0.5).astype(int)]
    )
    assert np.array_equal(found, painted(faint, weights, found.shape[1] // weights.shape[1]))


def test_word_pieces_together_and_special_tokens_hidden(
    strangers: Server, open_page: Callable[..., Page]
) -> None:
    """Added over what is looked at, averaged over what looks."""
    page = open_page(
        strangers.address("head", m=strangers.model("bert"), x="the cats sat on mats", wp=0, sp=0)
    )
    run, stack, *_ = drawn(page, MATRIX)
    asked = {"model": strangers.model("bert"), "text": "the cats sat on mats"}
    tokens = strangers.json("runs", asked)["tokens"]["queries"][stack]
    weights = strangers.tensor(f"runs/{run}/head/{stack}/0/0?view=raw").astype(float)
    places = {
        word: [i for i, each in enumerate(tokens) if each["word"] == word] for word in range(5)
    }
    assert len(places[1]) == 2 and not any(
        each["special"] for i in places.values() for each in [tokens[j] for j in i]
    )
    merged = np.array(
        [
            [weights[np.ix_(rows, columns)].sum(1).mean() for columns in places.values()]
            for rows in places.values()
        ]
    )
    wanted = np.minimum(255, np.floor(merged + 0.5)).astype(np.uint8)
    found = pixels(page, MATRIX)
    assert np.array_equal(found, painted(table(page), wanted, found.shape[1] // 5))
    assert page.locator(".down span").all_text_contents() == ["the", "cats", "sat", "on", "mats"]


@pytest.mark.parametrize(("studio", "name"), mostly_slow([MODELS[0], ("folders", "marian")]))
def test_translate(
    studios: dict[str, Server], open_page: Callable[..., Page], studio: str, name: str
) -> None:
    server = studios[studio]
    page = open_page(server.address("translate", m=server.model(name)))
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        run = drawn(page, MATRIX, "alignment", theme)[0]
        soft = nearest_bytes(server.json(f"runs/{run}/alignment")["soft"])
        found = pixels(page, MATRIX)
        scale = found.shape[1] // soft.shape[1]
        assert np.array_equal(found, painted(table(page, theme), soft, scale))
    assert page.locator(".mini").count() == 3


@pytest.mark.slow
def test_a_window_on_a_large_matrix(strangers: Server, open_page: Callable[..., Page]) -> None:
    """Zoomed and scrolled, the canvas shows exactly that part."""
    text = "the cat sat on the mat . " * 8
    page = open_page(strangers.address("head", m=strangers.model("bert"), x=text, z=24))
    run, stack, *_ = drawn(page, MATRIX)
    weights = strangers.tensor(f"runs/{run}/head/{stack}/0/0?view=raw")
    page.evaluate("document.querySelector('.matrix-pane').scrollTo(120, 72)")
    page.wait_for_timeout(200)
    found = pixels(page, MATRIX)
    whole = painted(table(page), weights, 24)
    assert whole.shape[0] > found.shape[0] + 72
    assert np.array_equal(found, whole[72 : 72 + found.shape[0], 120 : 120 + found.shape[1]])


def test_the_colours(toys: Server, open_page: Callable[..., Page]) -> None:
    """Lightness in even steps; colour 0 is the paper; no colour stands for two weights."""
    page = open_page(toys.url)
    for theme in ("light", "dark"):
        colours = table(page, theme)
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme }", theme)
        paper = page.evaluate(
            "getComputedStyle(document.documentElement).getPropertyValue('--paper')"
        )
        assert "#{:02x}{:02x}{:02x}".format(*colours[0]) == paper
        assert len({tuple(each) for each in colours.tolist()}) == 256
        steps = np.diff(lightness(colours))
        assert np.all(np.sign(steps) == np.sign(steps[0]))
        assert np.abs(steps - steps.mean()).max() < 0.004  # rounding to bytes


def lightness(colours: Bytes) -> Any:
    """OKLab's L."""
    c = colours / 255
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    to_lms = np.array([[0.4122214708, 0.5363325363, 0.0514459929],
                       [0.2119034982, 0.6806995451, 0.1073969566],
                       [0.0883024619, 0.2817188376, 0.6299787005]])  # fmt: skip
    return np.cbrt(linear @ to_lms.T) @ [0.2104542553, 0.793617785, -0.0040720468]
