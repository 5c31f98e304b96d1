"""Surprisal of each token, in bits: −log₂ of the probability that the model gave it.

A decoder predicts each token from those before it. An encoder is asked for one masked token after
the other: Salazar et al. 2020, "Masked language model scoring".
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from glassformer.errors import InputError
from glassformer.glass import Edit, swapped
from glassformer.loaded import Model, record
from glassformer.studio.jobs import JobMonitor
from glassformer.studio.runs import RecordedRun
from glassformer.studio.schemas import Surprisal
from glassformer.studio.tokenization import mask_token
from glassformer.studio.views.predictions import surprisal_bits

Change = Tensor | Callable[[Tensor], Tensor]


def surprisal(run: RecordedRun, progress: JobMonitor) -> Surprisal:
    """The surprisal of a run's tokens; raises InputError for a model that predicts no tokens."""
    if run.next_bits:
        return Surprisal(side="decoder", bits=run.next_bits)
    model = run.loaded_model
    mask = mask_token(model.tokenizer)
    if model.task.spec.traits.predicts != "masked_tokens" or mask is None:
        raise InputError("surprisal: this model predicts no tokens: choose a language model")
    return Surprisal(side="encoder", bits=_masked_bits(model, run, mask, progress))


def _masked_bits(
    model: Model, run: RecordedRun, mask: str, progress: JobMonitor
) -> list[float | None]:
    tokens = run.tokens["encoder"]
    bits: list[float | None] = []
    for place, token in enumerate(tokens):
        progress.report("token", place, len(tokens))
        id = None if model.tokenizer is None else model.tokenizer.id(token.piece)
        if token.special or id is None:
            bits.append(None)
            continue
        edit = _and_then(run.edit, swapped(model, "encoder", {place: mask}))
        logits = record(model, run.inputs, keep="logits", edit=edit)["logits"][place]
        bits.append(surprisal_bits(logits, id))
    return bits


def _and_then(first: Edit, second: Edit) -> Edit:
    """Both edits; where they change the same tensor, one after the other."""
    both = dict(first)
    for name, change in second.items():
        earlier = first.get(name)
        both[name] = change if earlier is None else _chained(earlier, change)
    return both


def _chained(first: Change, second: Change) -> Change:
    def change(x: Tensor) -> Tensor:
        for each in (first, second):
            x = each(x) if callable(each) else each
        return x

    return change
