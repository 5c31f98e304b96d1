"""Draw the packages and modules of glassformer and the imports between them, as they are.

    python docs/rooms.py        writes docs/rooms.svg

An arrow means "imports". An import that other arrows imply is not drawn: `cli` imports `train`, and
`train` imports `errors`, so the arrow from `cli` to `errors` is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "glassformer"
PICTURE = Path(__file__).parent / "rooms.svg"
WIDTH, STEP, HEIGHT, LANE = 960, 62, 30, 10  # the picture, from row to row, a box, a lane
Node = tuple[str, int]  # a room and a row: its own, or one that an arrow to it passes
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


@cache
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


def lanes(arrows: Mapping[str, set[str]]) -> dict[Node, set[Node]]:
    """The same arrows from row to row. An arrow that passes a row has a lane in it, which all
    arrows to the same room share."""
    row = rows(arrows)
    steps: dict[Node, set[Node]] = {(room, row[room]): set() for room in arrows}
    for room, targets in arrows.items():
        for target in targets:
            path = [
                (room, row[room]),
                *((target, r) for r in range(row[room] + 1, row[target] + 1)),
            ]
            for here, there in pairwise(path):
                steps.setdefault(here, set()).add(there)
    return steps


def places(steps: Mapping[Node, set[Node]], row: Mapping[str, int]) -> dict[Node, float]:
    """Where each box and lane is in its row: near the mean of what points at it."""
    x: dict[Node, float] = {}
    for number in range(max(row.values()) + 1):
        nodes = sorted(node for node in steps if node[1] == number)
        above = {node: [x[other] for other in steps if node in steps[other]] for node in nodes}
        nodes.sort(key=lambda node: sum(above[node]) / max(1, len(above[node])))
        sizes = [_width(node[0]) if row[node[0]] == number else LANE for node in nodes]
        gap = (WIDTH - sum(sizes)) / len(nodes)
        left = gap / 2
        for node, size in zip(nodes, sizes, strict=True):
            x[node] = left + size / 2
            left += size + gap
    return x


def _width(room: str) -> int:
    return 9 * len(room) + 26


def draw() -> str:
    arrows = reduced(rooms())
    row, steps = rows(arrows), lanes(arrows)
    x = places(steps, row)
    bottom = 48 + STEP * max(row.values())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom}">',
        f"<style>{STYLE}</style>",
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 8 4 0 8z"/></marker>',
    ]
    for here in sorted(steps):
        for there in sorted(steps[here]):
            y, v = (24 + STEP * node[1] for node in (here, there))
            y, v = y + HEIGHT / 2, v - HEIGHT / 2
            bend, a, b = (v - y) / 2, x[here], x[there]
            curve = (
                f"M{a:.0f} {y:.0f}C{a:.0f} {y + bend:.0f} {b:.0f} {v - bend:.0f} {b:.0f} {v:.0f}"
            )
            tip = ' marker-end="url(#tip)"'
            if row[there[0]] != there[1]:  # a lane: straight through its row
                curve, tip = f"{curve}v{HEIGHT}", ""
            lines.append(f'<path d="{curve}"{tip}/>')
    for room in sorted(arrows):
        package, wide = (SOURCE / room).is_dir(), _width(room)
        middle, y = x[room, row[room]], 24 + STEP * row[room]
        lines.append(
            f'<g class="{"package" if package else "file"}"><rect x="{middle - wide / 2:.0f}" '
            f'y="{y - HEIGHT / 2:.0f}" width="{wide}" height="{HEIGHT}" rx="6"/>'
            f'<text x="{middle:.0f}" y="{y + 5}">{room}{"/" if package else ""}</text></g>'
        )
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
