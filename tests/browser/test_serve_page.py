"""The server's page in Chromium: its forms work, and hostile texts stay text."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from playwright.sync_api import Page, Route, expect

from browser.hostile import BENIGN, FOREIGN, HOSTILE, TAGS
from serve.processes import serving

pytestmark = pytest.mark.slow
SHORT = {
    "fill": "table",
    "generate": r"\w",
    "embed": "256 numbers",
    "follows": "%",
    "translate": "ко",
}


@pytest.fixture(scope="module")
def url():
    with serving("gf-encoder", "gf-decoder", "gf-en-ru") as server:
        yield server.url + "/"


def test_the_forms_answer(open_page, url) -> None:
    page = open_page(url)
    for task, answer in SHORT.items():
        page.click(f"#{task} button")
        expect(page.locator(f"#{task} .answer")).to_contain_text(re.compile(answer))
        expect(page.locator(f"#{task} details")).to_be_visible()
    expect(page.locator("#queue tr")).to_have_count(3)
    page.fill("#fill textarea", "no blank")
    page.click("#fill button")
    expect(page.locator("#fill .answer")).to_contain_text("[MASK]")


def elements(page: Page, url: str, words: Sequence[str]) -> Counter[str]:
    """The elements of the page when names, labels and answers are these words."""
    tasks = ["generate", "classify", "fill", "tag"]
    row = {"languages": {}, "running": 0, "waiting": 0, "waiting_tokens": 0, "queue_tokens": 1}
    rows = [{"model": word, "tasks": tasks, **row} for word in words]
    answers = {
        "queue": rows,
        "v1/completions": {"choices": [{"text": "".join(words)}]},
        "classify": {"scores": dict.fromkeys(words, 0.5)},
        "fill": {"error": "".join(words)},
        "tag": {"words": [{"text": word, "label": word} for word in words]},
    }

    def reply(route: Route) -> None:
        path = route.request.url.removeprefix(url)
        status = 400 if path == "fill" else 200
        route.fulfill(
            status=status, body=json.dumps(answers[path]), content_type="application/json"
        )

    page.unroute_all()
    page.route(lambda address: address.removeprefix(url) in answers, reply)
    page.goto(url)
    for task in tasks:
        page.click(f"#{task} button")
        expect(page.locator(f"#{task} .answer")).to_contain_text(words[-1])
    assert "undefined" not in page.inner_text("body")
    return Counter(page.evaluate(TAGS))


def test_hostile_texts_build_nothing(open_page, url) -> None:
    page = open_page(url)
    usual, hostile = (elements(page, url, words) for words in (BENIGN, HOSTILE))
    assert usual == hostile and not FOREIGN & set(hostile)
