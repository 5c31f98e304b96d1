"""What the lectures' slides print, beside what we compute."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from glassformer.model.position import sinusoid
from glassformer.studio.page_schemas import Sheet

WORDS = ("I", "loved", "the", "movie", "!")
X = (  # as printed: a row for each word
    (2.7, 3.1, -1.4, -2.3, 0.7),
    (-0.7, -0.8, -1.3, -0.2, -0.9),
    (2.3, 1.5, 1.1, 1.4, 1.3),
    (-0.9, -1.5, -0.7, 0.9, 0.2),
    (-0.1, -0.7, -1.6, 0.2, 0.6),
)
R = (-3.4, 2.4, -0.8, -1.2, 1.7)
A = (0.00, 0.64, 0.02, 0.02, 0.32)
PLACES = (20, 21, 98)
WAVES = {  # the index on the slide: (the index that has these values, the values of 20, 21, 98)
    0: (0, (0.91, 0.84, -0.57)),
    10: (11, (-0.11, -0.49, 0.25)),
    20: (20, (-0.03, -0.19, 0.18)),
    30: (31, (0.30, 0.24, 1.00)),
    40: (40, (0.48, 0.50, 0.63)),
    50: (51, (0.98, 0.98, 0.56)),
    60: (60, (0.08, 0.08, 0.38)),
    70: (71, (1.00, 1.00, 0.99)),
    80: (80, (0.01, 0.01, 0.06)),
    90: (91, (1.00, 1.00, 1.00)),
}
WIDTH, HEAD, VALUES, HIDDEN, VOCABULARY = 100, 37, 100, 512, 32_000


def pooling_vector() -> Tensor:  # (5,)
    """The v for which v · x is the printed r: five equations, five unknowns."""
    x, r = torch.tensor(X, dtype=torch.double), torch.tensor(R, dtype=torch.double)
    v: Tensor = torch.linalg.solve(x, r)
    return v


def pooling_sheets() -> list[Sheet]:
    """Important-word pooling on the slide's own numbers."""
    x, v = torch.tensor(X, dtype=torch.double), pooling_vector()
    r = x @ v
    a = r.softmax(0)
    mixture = a @ x
    exponents = r.exp()
    names = [f"x{i}" for i in range(1, 6)]
    walk = Sheet(
        title="v · x → r → a → mixture",
        text=f"r = v · x; a = e^r over their sum, which is {float(exponents.sum()):.2f}; the last "
        "row is Σ a x, the vector of the document. The slide prints 0.02 for “the”: it is "
        f"{float(a[2]):.4f}, which rounds to 0.03.",
        columns=["word", *names, "r", "e^r", "a", "a printed"],
        rows=[
            [word, *row, score, exponent, weight, printed]
            for word, row, score, exponent, weight, printed in zip(
                WORDS, x.tolist(), r.tolist(), exponents.tolist(), a.tolist(), A, strict=True
            )
        ]
        + [["Σ a x", *mixture.tolist(), None, None, float(a.sum()), None]],
    )
    solved = Sheet(
        title="Which v?",
        text="The slide prints x and r, but no v. Five equations in five unknowns have one "
        "solution. Its numbers are large, and nearly cancel: the slide's numbers are "
        "illustrative, not a trained model's.",
        columns=["", *(f"v{i}" for i in range(1, 6))],
        rows=[["v", *(f"{entry:.1f}".replace("-", "−") for entry in v.tolist())]],
    )
    return [walk, solved, *parameter_sheets()]


def parameter_counts(head: int) -> dict[str, int]:
    """The parameters of the lecture's block with queries and keys of this width."""
    return {
        "W_Q": WIDTH * head,
        "W_K": WIDTH * head,
        "W_V": WIDTH * VALUES,
        "W1_ff": WIDTH * HIDDEN,
        "W2_ff": HIDDEN * WIDTH,
        "embeddings": VOCABULARY * WIDTH,
    }


def parameter_sheets() -> list[Sheet]:
    """The slide's table of parameters, for both sizes that the slides print."""
    sizes = [parameter_counts(head) for head in (HEAD, WIDTH)]
    shapes = {
        "W_Q": None, "W_K": None, "W_V": f"{WIDTH}×{VALUES}", "W1_ff": f"{WIDTH}×{HIDDEN}",
        "W2_ff": f"{HIDDEN}×{WIDTH}", "embeddings": f"{VOCABULARY:,}×{WIDTH}",
    }  # fmt: skip
    rows: list[list[str | float | None]] = [
        [
            name,
            *(
                cell
                for head, counts in zip((HEAD, WIDTH), sizes, strict=True)
                for cell in (shape or f"{WIDTH}×{head}", f"{counts[name]:,}")
            ),
        ]
        for name, shape in shapes.items()
    ]
    rows.append(["sum", "", f"{sum(sizes[0].values()):,}", "", f"{sum(sizes[1].values()):,}"])
    return [
        Sheet(
            title=f"Queries and keys of {HEAD} numbers, or of {WIDTH}?",
            text=f"The slides on self-attention have W_Q and W_K of {WIDTH}×{HEAD}, the table of "
            f"parameters {WIDTH}×{WIDTH}. Both work: q · k only needs two vectors of the same "
            "length. Another slide gives GPT-4 a d_model of 2048: its size is not published.",
            columns=["one head, one block", "shape", "count", "shape", "count"],
            rows=rows,
        )
    ]


def position_sheets() -> list[Sheet]:
    """The slide's table of positions 20, 21 and 98, and the worked example with 4 numbers."""
    waves = sinusoid(100, WIDTH).double()
    rows: list[list[str | float | None]] = []
    for printed, (index, values) in WAVES.items():
        cells: list[str | float | None] = [
            "sin" if index % 2 == 0 else "cos",
            str(printed),
            *(float(waves[place, index]) for place in PLACES),
        ]
        differs = [
            f"{value:.2f} at {place}".replace("-", "−")
            for place, value in zip(PLACES, values, strict=True)
            if abs(value - float(waves[place, index])) > 0.005
        ]
        rows.append([str(index), *cells, ", ".join(differs)])
    near, far = (float(torch.cosine_similarity(waves[20], waves[at], 0)) for at in PLACES[1:])
    exact = float(waves[21, 11])
    text = (
        "The rows that the slide calls 10, 30, 50, 70 and 90 are the cosines of these pairs: "
        f"indices 11, 31, 51, 71 and 91. It prints -0.49 where the value is {exact:.4f}, which "
        f"rounds to {exact:.2f}. Cosine of position 20 with 21: {near:.2f}, with 98: {far:.2f}."
    )
    table = Sheet(
        title="The slide's table",
        text=text.replace("-", "−"),
        columns=["index", "", "on the slide", *map(str, PLACES), "printed otherwise"],
        rows=rows,
    )
    slip = 1 / math.sqrt(100_000)
    four = sinusoid(2, 4).double()
    worked = Sheet(
        title="Four numbers, worked by hand",
        text="The slide writes 1/100000^.5, a slip for 1/10000^.5 = 0.01: with the slip it would "
        f"be {slip:.5f}.",
        columns=["position", "0", "1", "2", "3"],
        rows=[[str(place), *row] for place, row in enumerate(four.tolist())],
    )
    return [table, worked]
