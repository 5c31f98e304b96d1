"""Pictures of five pages of the site, for docs/: `python tests/browser/site_pictures.py`, after
`make docs`, with a Chromium on the path."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parent.parent.parent
PAGES = ("index", "howto/train", "lecturers", "reference/python", "figures")


def main() -> None:
    with sync_playwright() as playwright:
        path = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}).new_page()
        for name in PAGES:
            page.goto((ROOT / "site" / f"{name}.html").as_uri())
            page.screenshot(path=ROOT / "docs" / f"site-{Path(name).name}.png")
        browser.close()


if __name__ == "__main__":
    main()
