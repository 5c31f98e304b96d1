"""What a new user does first: an own sentence, the back button, a patch, a long text, a phone."""

import json
import re
from collections.abc import Callable

import numpy as np
import pytest
from playwright.sync_api import Page, Route, expect

from browser.screens import Server, drawn, pixels, settle
from sampling import mostly_slow

CHOSEN = ".tokens .strip [aria-pressed=true]"
HEAD = ".cells .matrix-pane canvas"


def run(page: Page, text: str) -> None:
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")
    page.wait_for_function(
        "(text) => new URLSearchParams(location.hash.split('?')[1]).get('x') === text", arg=text
    )
    settle(page)


def test_an_own_sentence_is_answered_where_the_model_predicts(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    """At its last token, or at its mask, whatever was chosen in the sentence before."""
    page = open_page(toys.address(m="toy-decoder"))
    settle(page)
    for text in ("the man", "man ordered the beef and the woman ordered the", "the cat"):
        run(page, text)
        expect(page.locator(CHOSEN)).to_have_text(text.split()[-1])
        expect(page.locator(".predictions h2")).to_contain_text(f"after “{text.split()[-1]}”")
    page.goto(toys.address(m="toy-encoder", x="I [MASK] the apple."))
    expect(page.locator("#text")).to_have_value("I [MASK] the apple.")
    for text in ("I sat by the river [MASK].", "[MASK] sat by the river bank."):
        run(page, text)
        expect(page.locator(CHOSEN)).to_have_text("[MASK]")


@pytest.mark.slow
def test_back_leads_to_the_sentence_before(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address(m="toy-decoder"))
    settle(page)
    first = page.locator("#text").input_value()
    run(page, "the man")
    run(page, "the cat")
    for text in ("the man", first):
        page.go_back()
        expect(page.locator("#text")).to_have_value(text)
        settle(page)


def test_tokens_that_are_read_alike(toys: Server, open_page: Callable[..., Page]) -> None:
    """Two tokens are both b: each keeps its own probability, before and after."""

    def ambiguous(route: Route) -> None:
        asked = json.loads(route.request.post_data or "")
        answer = toys.json("runs", asked)
        spaced, bare = (0.9, 0.03) if not asked["off"] else (0.2, 0.6)
        for place in answer["predictions"]["at"]:
            place["top"] = sorted(
                [{"id": 7, "text": "b", "piece": "Ġb", "p": spaced},
                 {"id": 8, "text": "b", "piece": "b", "p": bare},
                 {"id": 9, "text": "c", "piece": "Ġc", "p": 0.01}], key=lambda each: -each["p"],
            )  # fmt: skip
        route.fulfill(body=json.dumps(answer), content_type="application/json")

    page = open_page("about:blank")
    page.route("**/api/runs", ambiguous)
    page.goto(toys.address(m="toy-decoder", off="decoder.0.0"))
    settle(page)
    rows = page.locator(".predictions tbody tr").all_inner_texts()
    assert [row.split("\t")[:4] for row in rows] == [
        ["␣b", "0.90", "0.20", "−0.70"],
        ["b", "0.03", "0.60", "+0.57"],
        ["c", "0.01", "0.01", "≈"],
    ]


def test_formulas_are_those_of_the_model(toys: Server, open_page: Callable[..., Page]) -> None:
    """Each formula's vectors stand below it; the position is added in the first layer only."""
    page = open_page(toys.address("numbers", m="toy-decoder", l=0, s=0))
    settle(page)
    names = page.locator(".vector .name b")
    assert names.all_inner_texts() == ["token", "position", "h", "x"]
    formulas = page.locator(".formula math")
    assert formulas.first.text_content() == "h=token+position"
    page.goto(toys.address("numbers", m="toy-decoder", l=1, s=0))
    expect(formulas.first).to_have_text("h=y0")
    page.goto(toys.address("numbers", m="toy-decoder", l=1, s=8))
    expect(formulas).to_have_text(["r=h+o"])
    assert names.all_inner_texts() == ["h", "o", "r"]
    values = [
        row.locator("canvas").evaluate("(canvas) => canvas.shows[0].values")
        for row in page.locator(".vector").all()
    ]
    np.testing.assert_allclose(np.add(values[0], values[1]), values[2], atol=1e-5)


@pytest.mark.slow
def test_a_patch_shows_the_new_answer(toys: Server, open_page: Callable[..., Page]) -> None:
    """It is read where the model predicts, not where the vector was put."""
    state = {"m": "toy-decoder", "x": "man ordered the", "from": "woman ordered the", "q": 1}
    page = open_page(toys.address("lab", **state))
    settle(page)
    answer = page.get_by_role("region", name="Predictions")
    expect(answer.locator("h2")).to_contain_text("after “the”")
    page.get_by_role("group", name="Tokens of the other sentence").get_by_role(
        "button", name="woman"
    ).click()
    page.get_by_role("button", name=re.compile("^Patch: “woman” in place of “man”")).click()
    expect(page).to_have_url(re.compile(r"pa=decoder\.0\.1\.1"))
    settle(page)
    ask = {"model": "toy-decoder", "text": "man ordered the", "other": "woman ordered the"}
    patched = toys.json("runs", {**ask, "patches": [["decoder", 0, 1, 1]]})
    for guess in patched["predictions"]["at"][-1]["top"][:3]:
        row = answer.locator("tbody tr").filter(has_text=guess["text"])
        after = row.locator("td").nth(1).get_attribute("data-value") or "nan"
        assert float(after) == pytest.approx(guess["p"], abs=1e-6)
    expect(page.get_by_role("group", name="layer", exact=True)).to_contain_text("layer 1")
    note = page.get_by_role("note")
    expect(note).to_be_hidden()
    page.keyboard.press("[")
    expect(note).to_contain_text("L0·H0 is computed before what was changed")
    expect(page.locator(".moved button").first).to_have_text(re.compile(r"^L\d·H\d \d+ %$"))
    read = page.get_by_role("group", name="Where the answer is read")
    read.get_by_role("button", name="man").click()
    expect(answer.locator("h2")).to_contain_text("after “man”")
    changed = page.get_by_role("group", name="Tokens of the decoder")
    changed.get_by_role("button", name="ordered").click()
    expect(page.get_by_role("heading", name="“ordered”")).to_be_visible()
    expect(answer.locator("h2")).to_contain_text("after “man”")


def test_a_translation_tells_where_the_rest_goes(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(toys.address("translate", m="toy-translator"))
    settle(page)
    cells = page.locator("[aria-label='The chosen word'] td[data-value]").all()
    total = sum(float(cell.get_attribute("data-value") or "nan") for cell in cells)
    assert total == pytest.approx(1, abs=1e-5)
    expect(page.get_by_role("row", name="special tokens")).to_be_visible()


@pytest.mark.slow
def test_a_long_text_is_not_white(strangers: Server, open_page: Callable[..., Page]) -> None:
    """Colours end where 99 % of its weights do, and the legend says so."""
    text = " ".join(["the cat sat on the mat"] * 10)
    page = open_page(strangers.address("head", m="bert", x=text))
    drawn(page, HEAD)
    settle(page)
    legend = page.locator(".cells .legend .end").last.inner_text()
    assert legend.startswith("≥ ") and float(legend[2:]) < 0.5
    light = pixels(page, HEAD)[..., :3].mean(-1)
    assert (light < 200).mean() > 0.01


def test_cells_of_a_phone_take_the_room(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address(), width=390, height=844)
    settle(page)
    box = page.locator(".board td button").first.bounding_box()
    assert box and box["width"] > 60
    wide = page.locator(".board").bounding_box()
    assert wide and wide["width"] < 358


@pytest.mark.slow
def test_a_refused_text_leaves_no_picture(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("head", m="toy-decoder"))
    settle(page)
    page.locator("#text").fill("the " * 40)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("shorten it")
    expect(page.locator("#page canvas").first).to_be_hidden()
    run(page, "the cat")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(page.locator("#page canvas").first).to_be_visible()
    page.goto(toys.address("compare", m="toy-decoder", o="the " * 40))
    expect(page.get_by_role("alert")).to_contain_text("shorten it")
    expect(page.locator("#page canvas").first).to_be_hidden()
    expect(page.get_by_label("Second sentence")).to_be_visible()


@pytest.mark.slow
def test_a_link_names_its_model(toys: Server, open_page: Callable[..., Page]) -> None:
    """In a studio that lacks it nothing else is shown in its place."""
    page = open_page(toys.address("head"))
    settle(page)
    page.get_by_label("Model", exact=True).select_option(label="toy translator")
    expect(page).to_have_url(re.compile("m=toy-translator"))
    page.goto(toys.address("head", m="another"))
    expect(page.get_by_role("alert")).to_contain_text("This studio has no model “another”")
    expect(page.locator("#page canvas").first).to_be_hidden()
    page.get_by_label("Model", exact=True).select_option(label="toy encoder")
    settle(page)
    expect(page.get_by_role("alert")).to_be_hidden()


@pytest.mark.slow
def test_buttons_keep_the_focus(toys: Server, open_page: Callable[..., Page]) -> None:
    """Also at the last layer, where the button can do no more."""
    page = open_page(toys.address("head"))
    settle(page)
    after = page.get_by_role("button", name="layer after")
    after.focus()
    for _ in range(3):
        page.keyboard.press("Enter")
        expect(page.get_by_role("group", name="layer", exact=True)).to_contain_text("layer 1")
        settle(page)
        expect(after).to_be_focused()
    expect(after).to_be_disabled()
    page.goto(toys.address("numbers", s=9))
    settle(page)
    page.get_by_role("button", name="Next").focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("s=10"))
    settle(page)
    expect(page.get_by_role("button", name="Next")).to_be_focused()


@pytest.mark.parametrize("model", mostly_slow(["toy-encoder", "toy-decoder", "toy-translator"]))
def test_tokens_are_coloured_by_surprisal(
    toys: Server, open_page: Callable[..., Page], model: str
) -> None:
    page = open_page(toys.address(m=model))
    settle(page)
    tinted = page.locator(".tokens .tinted")
    tick = page.get_by_label("surprisal")
    if model == "toy-encoder":
        expect(tick).not_to_be_checked()
        expect(tinted).to_have_count(0)
        tick.check()
        expect(tinted.first).to_be_visible()
    expect(tick).to_be_checked()
    ask = {"model": model, "text": page.locator("#text").input_value(), "second": None, "off": []}
    found = toys.json(f"runs/{toys.json('runs', ask)['run']}/surprisal")
    bits = [each for each in found["bits"] if each is not None]
    titles = [each.get_attribute("title") or "" for each in tinted.all()]
    assert [title.split(": ")[1].split(",")[0] for title in titles] == [
        f"surprisal {each:.1f} bits" for each in bits
    ]
    tints = tinted.evaluate_all("(all) => all.map((each) => each.style.getPropertyValue('--tint'))")
    assert [float(each) for each in tints] == pytest.approx(
        [min(1, each / 14) for each in bits], abs=6e-4
    )
    tick.uncheck()
    expect(tinted).to_have_count(0)


@pytest.mark.slow
def test_tooltips_stand_at_the_cursor(toys: Server, open_page: Callable[..., Page]) -> None:
    page = open_page(toys.address("head", m="toy-decoder", x="the cat sat"))
    name = drawn(page, HEAD)
    settle(page)
    tip = page.locator(".tip")
    box = page.locator(".cells .matrix-pane").bounding_box()
    assert box
    x, y = box["x"] + box["width"] * 0.1, box["y"] + box["height"] * 0.95
    page.mouse.move(x, y)
    row = toys.json(f"runs/{name[0]}/row/decoder/0/0/3")
    last, first = (page.locator(".labels.down span").nth(i).inner_text() for i in (-1, 0))
    expect(tip).to_have_text(f"{last} → {first}: {row['weights'][0]:.2f}")
    at = tip.bounding_box()
    assert at and 0 < at["x"] - x < 40 and abs(at["y"] - y) < 60
    page.mouse.move(2, 2)
    expect(tip).to_be_hidden()
    page.goto(toys.address("map", m="toy-decoder"))
    settle(page)
    page.locator("[data-at='1.2']").hover()
    expect(tip).to_have_text(re.compile(r"^L1·H2"))


def test_long_work_tells_how_far_it_is_and_can_be_stopped(
    toys: Server, open_page: Callable[..., Page]
) -> None:
    page = open_page(toys.address(m="toy-decoder"))
    settle(page)
    before = page.locator("#text").input_value()
    line = page.get_by_role("group", name="Progress")
    expect(line).to_be_hidden()
    page.route("**/api/runs", lambda route: None)  # never answered
    progress = json.dumps({"unit": "layer", "done": 12, "of": 30})
    page.route("**/api/jobs/*", lambda route: route.fulfill(body=progress))
    page.locator("#text").fill("the cat sat on")
    page.keyboard.press("Enter")
    expect(line).to_be_visible()
    expect(line).to_contain_text("layer 12 of 30")
    bar = line.get_by_role("progressbar")
    assert bar.evaluate("(bar) => [bar.value, bar.max]") == [12, 30]
    line.get_by_role("button", name="Cancel").click()
    expect(line).to_be_hidden()
    expect(page.get_by_role("alert")).to_have_text("Cancelled.")
    page.locator("#text").blur()
    expect(page).not_to_have_url(re.compile("sat"))
    assert toys.json("runs", {"model": "toy-decoder", "text": before})["run"]
    expect(page.get_by_role("main")).to_have_attribute("aria-busy", "false")
