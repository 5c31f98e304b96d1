"""The site of docs/ in a real browser, opened from the disk."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from sitebuild import build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build_site(folder)
    return folder


@pytest.mark.slow
def test_search_and_formulas_without_a_network(site: Path, open_file: Callable[..., Page]) -> None:
    page = open_file((site / "howto" / "train.html").as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("erratum softmax")
    first = page.locator(".md-search-result__link").first
    expect(first).to_contain_text("For lecturers")
    first.click()
    page.wait_for_url("**/lecturers.html*")
    fraction = page.locator("math mfrac").first.bounding_box()
    assert fraction is not None and fraction["height"] > 20  # drawn as one, not as a line of text
    page.locator("input.md-search__input").click()
    page.keyboard.type("nosuchword")
    expect(page.locator(".md-search-result__meta")).to_contain_text("No matching documents")
