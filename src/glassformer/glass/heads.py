"""What kind of head is this? Each kind attends to certain tokens; the score is their share.

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
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import sides, weights


def head_scores(trace: RecordedTensors, stack: str) -> dict[str, Tensor]:  # (L, H) each
    """The score of every head for each kind, from 0 to 1; 0 where the text has no such tokens."""
    attention = weights(trace, stack)
    targets = _targets(*sides(trace, stack), stack)
    return {kind: _share(attention, mask.to(attention.device)) for kind, mask in targets.items()}


def head_measures(trace: RecordedTensors, stack: str) -> dict[str, Tensor]:  # (L, H) each
    """Every measure that is one number per head: entropy, distance, and the scores of each kind.

    Distance is left out for cross attention: it means something only within one text.
    """
    attention = weights(trace, stack)
    far = {} if stack == "cross" else {"distance": distance(attention)}
    return {"entropy": entropy(attention), **far, **head_scores(trace, stack)}


def head_types(trace: RecordedTensors, stack: str, threshold: float = 0.4) -> list[list[str]]:
    """For each layer and head the kind with the largest score; "" if it is below `threshold`."""
    return strongest(head_scores(trace, stack), threshold)


def strongest(scores: Mapping[str, Tensor], threshold: float = 0.4) -> list[list[str]]:
    """The same for scores that were computed before."""
    names = list(scores)
    best, kinds = torch.stack(list(scores.values())).max(0)
    return [
        [names[kind] if score >= threshold else "" for score, kind in zip(*row, strict=True)]
        for row in zip(best.tolist(), kinds.tolist(), strict=True)
    ]


def repeated(
    vocab_size: int, *, length: int = 25, repeats: int = 4, start: int | None = None, seed: int = 0
) -> list[int]:
    """Random token ids, repeated: only an induction head can predict the repetitions.

    Args:
        length: how many different ids
        repeats: how often they come
        start: an id to put in front, such as the start token
    """
    draw = torch.Generator().manual_seed(seed)
    ids: list[int] = torch.randperm(vocab_size, generator=draw)[:length].tolist()
    return ([] if start is None else [start]) + ids * repeats


def _targets(queries: Sequence[str], keys: Sequence[str], stack: str) -> dict[str, Tensor]:
    """(T, S) for each kind: where such a head attends. For cross attention only two make sense."""
    numbers = {token: i for i, token in enumerate(dict.fromkeys(keys))}
    words = torch.tensor([numbers[token] for token in keys])
    row, column = torch.arange(len(queries))[:, None], torch.arange(len(keys))
    divides = torch.zeros(len(queries), len(keys), dtype=torch.bool)
    divides[:, separators(keys)] = True
    if stack == "cross":
        return {"first": (column == 0).expand_as(divides), "separator": divides}
    same = words[:, None] == words
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


def _share(weights: Tensor, targets: Tensor) -> Tensor:  # (…, T, S), (T, S) → (…)
    rows = targets.any(-1)
    return (weights * targets).sum(-1)[..., rows].sum(-1) / rows.sum().clamp(min=1)
