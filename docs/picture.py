"""Draw docs/first-light.svg: the head of the second toy, which is trained here.

python docs/picture.py
"""

from __future__ import annotations

from html import escape
from pathlib import Path

import torch

from glassformer import toys

CELL, LABEL, TOP = 46, 66, 64
INK, PALE = "#1b2a41", "#5c6f87"


def panel(x: int, title: str, rows: list[str], columns: list[str], values: torch.Tensor) -> str:
    parts = [f'<text x="{x}" y="26" class="title">{escape(title)}</text>']
    for j, name in enumerate(columns):
        middle = x + LABEL + j * CELL + CELL // 2
        parts.append(f'<text x="{middle}" y="{TOP - 10}" class="column">{escape(name)}</text>')
    for i, name in enumerate(rows):
        y = TOP + i * CELL
        parts.append(f'<text x="{x + LABEL - 10}" y="{y + 28}" class="row">{escape(name)}</text>')
        for j, value in enumerate(values[i].tolist()):
            left = x + LABEL + j * CELL
            if value != value:  # hidden by the causal mask
                parts.append(
                    f'<rect x="{left}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" '
                    'class="hidden"/>'
                )
                continue
            shade = f'fill-opacity="{0.04 + 0.96 * value:.3f}"'
            ink = "#ffffff" if value > 0.6 else INK
            parts.append(
                f'<rect x="{left}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3" '
                f'fill="#1f6feb" {shade}/>'
            )
            parts.append(
                f'<text x="{left + CELL // 2 - 1}" y="{y + 27}" class="cell" '
                f'style="fill:{ink}">{value:.2f}</text>'
            )
    return "\n".join(parts)


def main() -> None:
    torch.manual_seed(4)  # as the demo's
    toy = toys.SECOND
    model = toys.OneHead(toy)
    for _ in toys.train(toy, model):
        pass
    trace = toys.look(toy, model)
    words = list(toy.texts[0])
    looks = trace["attention.weights"][0]
    looks = looks.masked_fill(torch.ones_like(looks).triu(1).bool(), float("nan"))
    wide = LABEL + CELL * len(toy.words)
    starts = (16, 16 + LABEL + CELL * 5 + 36, 16 + LABEL + CELL * 5 + 36 + wide + 36)
    panels = [
        panel(starts[0], "attention weights", words, words, looks),
        panel(
            starts[1],
            "what it says comes next",
            words,
            list(toy.words),
            trace["logits"].softmax(-1),
        ),
        panel(
            starts[2], "what word pairs can know", words, list(toy.words), toy.bigrams()[toy.ids[0]]
        ),
    ]
    width, height = starts[2] + wide + 16, TOP + CELL * 5 + 14
    style = (
        f"text{{font-family:system-ui,'DejaVu Sans',sans-serif;fill:{INK}}}"
        f".title{{font-size:16px;font-weight:600}}.column,.row{{font-size:12px;fill:{PALE}}}"
        ".column{text-anchor:middle}.row{text-anchor:end}"
        ".cell{font-size:12px;text-anchor:middle}.hidden{fill:#eef2f7}"
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-label="One attention head on the '
        f'sentence {escape(" ".join(words))}">\n<style>{style}</style>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>\n'
        + "\n".join(panels)
        + "\n</svg>\n"
    )
    (Path(__file__).parent / "first-light.svg").write_text(svg)


if __name__ == "__main__":
    main()
