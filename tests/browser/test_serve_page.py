"""The server's page in Chromium: its forms work, and a hostile text stays text."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from serve.processes import serving

pytestmark = pytest.mark.slow
HOSTILE = "<img src=x onerror=alert(1)> [MASK]"


def test_the_forms_answer_and_text_is_inert(open_page) -> None:
    with serving("gf-encoder", "gf-decoder") as server:
        page = open_page(server.url + "/")
        page.fill("#fill textarea", HOSTILE)
        page.click("#fill button")
        expect(page.locator("#fill pre")).to_contain_text("blanks")
        page.click("#generate button")
        expect(page.locator("#generate pre")).to_contain_text("cmpl")
        expect(page.locator("#queue tr")).to_have_count(2)
        assert page.locator("img").count() == 0
