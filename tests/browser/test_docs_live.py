"""The exported pages in docs/live: they play from the disk, offline, also inside another page."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from glassformer.studio.standalone import DONE
from sampling import mostly_slow

LIVE = Path(__file__).parents[2] / "docs" / "live"
FRAME = '<iframe src="{}" title="glassformer" width="100%" height="720" loading="lazy"></iframe>'
PLAYS = {  # what a visitor clicks, and what it shows
    "model.html": ("[data-at='encoder.token.-1.2']", ".chosen-part h2", "“keys”"),
    "map.html": ("[data-at='3.1']", ".one-head h2", "Layer 3, head 1"),
    "translate.html": ("main", ".right", "Она"),
}


def test_what_there_is() -> None:
    assert sorted(path.name for path in LIVE.iterdir()) == sorted(PLAYS)
    index = (LIVE.parent / "index.md").read_text("utf-8")
    for path in LIVE.iterdir():
        assert path.stat().st_size <= 400_000
        assert f"(live/{path.name})" in index


@pytest.mark.parametrize("name", mostly_slow(PLAYS))
def test_it_plays(name: str, open_file: Callable[..., Page]) -> None:
    page = open_file((LIVE / name).as_uri())
    page.wait_for_function(DONE)
    click, where, text = PLAYS[name]
    page.locator(click).first.click()
    expect(page.locator(where).first).to_contain_text(text)
    expect(page.get_by_role("alert")).to_be_hidden()
    page.keyboard.press("G")
    expect(page.locator("#drawer dt").first).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("L")  # lessons need a server
    expect(page.locator("#drawer")).to_be_hidden()


def test_it_plays_in_a_frame(tmp_path: Path, open_file: Callable[..., Page]) -> None:
    (tmp_path / "page.html").write_bytes((LIVE / "model.html").read_bytes())
    (tmp_path / "outer.html").write_text(FRAME.format("page.html"), "utf-8")
    page = open_file((tmp_path / "outer.html").as_uri())
    inside = page.frame_locator("iframe")
    inside.locator("[data-at='encoder.token.-1.2']").click()
    expect(inside.locator(".chosen-part h2")).to_contain_text("“keys”")
