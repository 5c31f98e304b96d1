"""What a reader does with a page: export it, drop a file on it, go through it by keyboard."""

from pathlib import Path

from playwright.sync_api import Page, TimeoutError

from browser.screens import Bytes, Server, drawn

MAP, MATRIX = ".board canvas", ".matrix-pane canvas"
PAGES = (
    "model", "map", "head", "numbers", "translate", "generate", "layers", "positions", "space",
    "neurons", "pooling", "toy", "lab", "causes", "compare",
)  # fmt: skip
TABBED = """() => [...document.querySelectorAll("a, button, input, select, [tabindex='0']")]
  .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && !e.closest("dialog"))
  .length"""
FOCUS = """() => {
  const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
  return [document.activeElement.tagName, outlineStyle, parseFloat(outlineWidth)];
}"""
NAMELESS = """() => [...document.querySelectorAll("button, select, input, a, canvas")]
  .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.labels?.length
    || e.closest("[aria-hidden], [aria-label]")))
  .map((e) => e.outerHTML)"""


def taken(page: Page, kind: str, folder: Path) -> Path:
    """Clicked together in the dialog, and saved."""
    page.keyboard.press("E")
    dialog = page.get_by_role("dialog", name="Export")
    try:
        with page.expect_download(timeout=60_000) as started:
            dialog.get_by_role("button", name=kind, exact=True).click()
    except TimeoutError as error:
        raise AssertionError(dialog.get_by_role("status").text_content()) from error
    path = folder / started.value.suggested_filename
    started.value.save_as(path)
    page.keyboard.press("Escape")
    return path


def head(server: Server, page: Page) -> Bytes:
    run, stack, layer, number, view, *_ = drawn(page, MATRIX)
    return server.tensor(f"runs/{run}/head/{stack}/{layer}/{number}?view={view}")


def drop(page: Page, data: bytes) -> None:
    page.evaluate(
        """(bytes) => {
          const given = new DataTransfer();
          const name = "<img src=x onerror=alert(1)>.gftrace";
          given.items.add(new File([Uint8Array.from(bytes)], name));
          const drop = new DragEvent("drop", { dataTransfer: given, bubbles: true });
          document.body.dispatchEvent(drop);
        }""",
        list(data),
    )


def check_by_tab(page: Page) -> None:
    """Every control is reached, and what has the focus can be seen."""
    reached = []
    for _ in range(page.evaluate(TABBED)):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUS))
    assert "BODY" not in [tag for tag, _, _ in reached]
    assert all(style != "none" and width >= 1 for _, style, width in reached), reached
