"""What kind of head is this? Each kind has tokens it would look at; the score is the share there.

    previous    the token before            next         the token after
    first       the first token             separator    [SEP], full stops and the like
    duplicate   the same word elsewhere     induction    what came after the same word earlier

score = Σ_j a_ij over those tokens j, the mean over the queries i that have any. Previous, next and
separator heads: Clark et al. 2019, "What does BERT look at?". Duplicate heads: Wang et al. 2022,
"Interpretability in the wild". Induction, called prefix matching there: Olsson et al. 2022,
"In-context learning and induction heads", on random tokens that are repeated (`repeated`); on
any other text the same formula is its variant for natural text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from glassformer.glass.measures import distance, entropy, separators
from glassformer.glass.stacks import sides, weights
from glassformer.glass.trace import Trace


def head_scores(trace: Trace, stack: str) -> dict[str, Tensor]:  # (L, H) each
    """How much of each kind every head is, from 0 to 1; 0 where the text has no such tokens."""
    found = weights(trace, stack)
    looks = _looks(*sides(trace, stack), stack)
    return {kind: _share(found, mask.to(found.device)) for kind, mask in looks.items()}


def head_measures(trace: Trace, stack: str) -> dict[str, Tensor]:  # (L, H) each
    """All there is to say about each head in one number: how widely and how far it looks, and its
    scores. How far means something only within one text."""
    found = weights(trace, stack)
    far = {} if stack == "cross" else {"distance": distance(found)}
    return {"entropy": entropy(found), **far, **head_scores(trace, stack)}


def head_types(trace: Trace, stack: str, threshold: float = 0.4) -> list[list[str]]:
    """For each layer and head the kind with the largest score; "" if it is below `threshold`."""
    return strongest(head_scores(trace, stack), threshold)


def strongest(scores: Mapping[str, Tensor], threshold: float = 0.4) -> list[list[str]]:
    """The same, of scores that are known."""
    names = list(scores)
    best, kinds = torch.stack(list(scores.values())).max(0)
    return [
        [names[kind] if score >= threshold else "" for score, kind in zip(*row, strict=True)]
        for row in zip(best.tolist(), kinds.tolist(), strict=True)
    ]


def repeated(
    vocab_size: int, *, length: int = 25, repeats: int = 4, start: int | None = None, seed: int = 0
) -> list[int]:
    """Random token ids, said again and again: what only an induction head can foretell."""
    draw = torch.Generator().manual_seed(seed)
    ids: list[int] = torch.randperm(vocab_size, generator=draw)[:length].tolist()
    return ([] if start is None else [start]) + ids * repeats


def _looks(asking: Sequence[str], asked: Sequence[str], stack: str) -> dict[str, Tensor]:
    """(T, S) for each kind: where such a head looks. Between two texts only two make sense."""
    numbers = {token: i for i, token in enumerate(dict.fromkeys(asked))}
    keys = torch.tensor([numbers[token] for token in asked])
    row, column = torch.arange(len(asking))[:, None], torch.arange(len(asked))
    divides = torch.zeros(len(asking), len(asked), dtype=torch.bool)
    divides[:, separators(asked)] = True
    if stack == "cross":
        return {"first": (column == 0).expand_as(divides), "separator": divides}
    same = keys[:, None] == keys
    after_same = torch.zeros_like(same)
    after_same[:, 1:] = same[:, :-1]
    earlier = column < row
    return {
        "previous": column == row - 1,
        "next": column == row + 1,
        "first": (column == 0) & (row > 0),
        "duplicate": same & (earlier if stack == "decoder" else column != row),
        "induction": after_same & earlier,
        "separator": divides,
    }


def _share(weights: Tensor, looks: Tensor) -> Tensor:  # (…, T, S), (T, S) → (…)
    rows = looks.any(-1)
    return (weights * looks).sum(-1)[..., rows].sum(-1) / rows.sum().clamp(min=1)
