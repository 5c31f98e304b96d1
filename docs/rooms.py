"""Draw the packages and modules of glassformer and the imports between them, as they are.

    python docs/rooms.py        writes docs/rooms.svg

An arrow means "imports". An import that other arrows imply is not drawn: `cli` imports `train`, and
`train` imports `errors`, so the arrow from `cli` to `errors` is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "glassformer"
PICTURE = Path(__file__).parent / "rooms.svg"
WIDTH, STEP, HEIGHT = 960, 62, 30  # of the picture, from row to row, of a box
STYLE = """
  text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2937; text-anchor: middle }
  rect { fill: #e6f4f1; stroke: #00796b } .file rect { fill: #fff; stroke: #9ca3af }
  path { fill: none; stroke: #64748b; stroke-opacity: .55 }
  marker path { fill: #64748b; stroke: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } rect { fill: #12403b; stroke: #4db6ac }
    .file rect { fill: #1f2937; stroke: #6b7280 }
    path { stroke: #94a3b8 } marker path { fill: #94a3b8 }
  }
"""


def rooms() -> dict[str, set[str]]:
    """Each package or single module of glassformer, with those that it imports."""
    paths = [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem[0] != "_"]
    arrows: dict[str, set[str]] = {_room(path): set() for path in paths}
    for path in paths:
        for name in _imports(ast.parse(path.read_text("utf-8"))):
            parts = name.split(".")
            if parts[0] == "glassformer" and parts[1:2] != [_room(path)]:
                arrows[_room(path)].update(part for part in parts[1:2] if part in arrows)
    return arrows


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def _imports(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def rows(arrows: Mapping[str, set[str]]) -> dict[str, int]:
    """The row of each room, counted from the top: below all that import it."""

    @cache
    def row(room: str) -> int:
        return 1 + max((row(other) for other in arrows if room in arrows[other]), default=-1)

    return {room: row(room) for room in arrows}


def reduced(arrows: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Only the arrows that no chain of others implies."""

    @cache
    def below(room: str) -> frozenset[str]:
        return frozenset(arrows[room]).union(*(below(other) for other in arrows[room]))

    return {
        room: {one for one in direct if not any(one in below(other) for other in direct)}
        for room, direct in arrows.items()
    }


def places(arrows: Mapping[str, set[str]]) -> dict[str, tuple[float, float]]:
    """The centre of each box. Within a row, boxes are ordered by what points at them."""
    row_of, x = rows(arrows), dict.fromkeys(arrows, WIDTH / 2)
    centres: dict[str, tuple[float, float]] = {}
    for number in range(max(row_of.values()) + 1):
        row = sorted(room for room in arrows if row_of[room] == number)
        above = {room: [x[other] for other in arrows if room in arrows[other]] for room in row}
        row.sort(key=lambda room: sum(above[room]) / max(1, len(above[room])))
        for place, room in enumerate(row):
            x[room] = WIDTH * (place + 0.5) / len(row)
            centres[room] = x[room], 24 + STEP * number
    return centres


def draw() -> str:
    arrows = reduced(rooms())
    centres = places(arrows)
    bottom = max(y for _, y in centres.values()) + 24
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom:.0f}">',
        f"<style>{STYLE}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z"/></marker>',
    ]
    for room in sorted(arrows):
        for other in sorted(arrows[room]):
            (x, y), (u, v) = centres[room], centres[other]
            y, v = y + HEIGHT / 2, v - HEIGHT / 2
            bend = (v - y) / 2
            curve = (
                f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v:.0f}"
            )
            lines.append(f'<path d="{curve}" marker-end="url(#tip)"/>')
    for room, (x, y) in sorted(centres.items()):
        package = (SOURCE / room).is_dir()
        wide = 9 * len(room) + 26
        lines.append(
            f'<g class="{"package" if package else "file"}"><rect x="{x - wide / 2:.0f}" '
            f'y="{y - HEIGHT / 2:.0f}" width="{wide}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}">{room}{"/" if package else ""}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
