"""The page Neurons: its numbers are the server's; choosing, switching off, room."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

import glassformer as gf
from browser.screens import Server, settle
from sampling import mostly_slow

MODELS = ("toy encoder", "toy decoder", "toy translator")
WIDE = "document.documentElement.scrollWidth > innerWidth"
SHOWN = """async (values) => {
  const { number } = await import("./dom.js");
  return values.map(number);
}"""
IN_SIGHT = """() => ["[aria-label='Table of units']", ".one-unit .strip"].map((name) => {
  const list = document.querySelector(name);
  const chosen = list.querySelector("[aria-current] .token-name, .strip > [aria-pressed=true]");
  const [room, box] = [list, chosen].map((each) => each.getBoundingClientRect());
  return box.top > room.top - 1 && box.bottom < room.bottom + 1
    && box.left > room.left - 1 && box.right < room.right + 1;
})"""


def runs(server: Server, page: Page) -> str:
    found = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    return [match[1] for each in found if (match := re.search(r"/runs/(\w+)/neurons", each))][-1]


@pytest.mark.parametrize("name", mostly_slow(reversed(MODELS)))
def test_every_number_is_the_servers(
    toys: Server, open_page: Callable[..., Page], name: str
) -> None:
    page = open_page(toys.address("neurons", m=toys.model(name), l=1))
    settle(page)
    side = page.locator(".choice [aria-pressed=true]").all_text_contents() or [name.split()[1]]
    path = f"runs/{runs(toys, page)}/neurons/{side[0]}/1"
    top = toys.json(path)["strongest"]
    labels = page.locator(".units .row-of button").evaluate_all(
        "(all) => all.map((each) => each.ariaLabel)"
    )
    values = page.evaluate(SHOWN, [each["value"] for row in top for each in row])
    units = [each["unit"] for row in top for each in row]
    assert labels == [f"unit {u}: {value}" for u, value in zip(units, values, strict=True)]
    chosen = int((page.locator(".one-unit h2").text_content() or "").split()[1])
    own = toys.json(f"{path}/{chosen}")["values"]
    order = sorted(range(len(own)), key=lambda i: -abs(own[i]))[:12]
    told = page.locator(".one-unit tbody td:nth-child(2)").all_text_contents()
    assert told == page.evaluate(SHOWN, [own[i] for i in order])
    tints = page.locator(".one-unit .strip button").evaluate_all(
        "(all) => all.map((each) => Number(each.style.getPropertyValue('--tint')))"
    )
    most = max(map(abs, own))
    assert tints == pytest.approx([abs(value) / most for value in own], abs=6e-4)


def test_a_unit_is_chosen_and_switched_off(toys: Server, open_page: Callable[..., Page]) -> None:
    """By mouse and by keyboard; it stands in the address, and the answer has a before and after."""
    page = open_page(toys.address("neurons", m="toy-encoder", l=1))
    settle(page)
    third = page.locator(".units [aria-current] .row-of button").nth(2)
    number = (third.get_attribute("aria-label") or "").split(":")[0].removeprefix("unit ")
    third.click()
    expect(page.locator(".one-unit h2")).to_have_text(f"Unit {number} of layer 1")
    expect(page).to_have_url(re.compile(rf"u=encoder.1.{number}"))
    values = page.locator(".one-unit tbody td:nth-child(2)").all_text_contents()
    page.keyboard.press("x")
    expect(page.locator(".one-unit .badge")).to_have_text("off")
    expect(page).to_have_url(re.compile(rf"un=encoder.1.{number}"))
    settle(page)
    assert page.locator(".one-unit tbody td:nth-child(2)").all_text_contents() == values
    expect(page.locator(".predictions .both")).to_be_visible()
    page.goto(page.url.replace("#/neurons", "#/lab"))
    expect(page.locator(".changes")).to_contain_text(f"encoder: unit {number} of layer 1 is off")
    page.keyboard.press("N")
    settle(page)
    page.get_by_role("button", name="All units on").click()
    expect(page.locator(".one-unit .badge")).to_have_count(0)
    page.keyboard.press("b")
    expect(page.locator(".units [aria-current] .row-of button").nth(1)).to_have_attribute(
        "aria-pressed", "true"
    )
    page.keyboard.press("j")
    settle(page)
    expect(page.locator(".one-unit h2")).not_to_have_text(f"Unit {number} of layer 1")


def test_a_trace_without_units_says_so(toys: Server, open_page: Callable[..., Page]) -> None:
    whole = toys.trace("toy-decoder", "man ordered the")
    weights = {name: each for name, each in whole.tensors.items() if name.endswith(".weights")}
    trace = gf.Trace(weights, whole.tokens, [], whole.config)
    page = open_page(toys.url)
    settle(page)
    upload = """async (bytes) => (await (await fetch("api/traces", { method: "POST",
      headers: { "Content-Type": "application/octet-stream" },
      body: Uint8Array.from(bytes) })).json()).model"""
    model = page.evaluate(upload, list(trace.to_bytes()))
    page.goto(toys.address("neurons", m=model))
    expect(page.locator(".page-neurons .none")).to_contain_text("holds no units")
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.slow
@pytest.mark.parametrize("width", [320, 390, 1280, 1920])
def test_room(strangers: Server, open_page: Callable[..., Page], width: int) -> None:
    """No page scrolls sideways; the chosen token is in sight in both lists."""
    state = {"m": strangers.model("bert"), "x": " ".join(["xyz"] * 62), "q": 60}
    page = open_page(strangers.address("neurons", **state), width=width, height=700)
    settle(page)
    assert not page.evaluate(WIDE)
    assert page.evaluate(IN_SIGHT) == [True, True]
