"""The lectures' sentences, so that the first screen is never empty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from glassformer.loaded import Model
from glassformer.studio.guard import no_model
from glassformer.studio.reading import mask_of
from glassformer.studio.schemas import Sample

TEXTS = (
    "The pizza came out of the oven and it tasted good!",
    "I sat by the river bank.",
    "I deposited money in the bank.",
    "The Law will never be perfect, but its application should be just.",
)
BLANKS = (
    "Dang! I'm out fishing and a huge trout just [MASK] my line!",
    "The pizza came out of the [MASK] and it tasted good!",
    "I deposited money in the [MASK].",
)
PAIRS = (
    ("Paul went shopping.", "He bought a new shirt."),
    ("Ramona made coffee.", "Vanilla ice cream cones for sale."),
)
BEGINNINGS = ("The cat sat on", "The restaurant refused to serve me a ham sandwich, because it")
SOURCES = ("The cat sat on the mat", "I love to play soccer", "I ate the apple")


@dataclass(frozen=True, eq=False)
class Served:
    """A model under its name, and texts that it knows, if they are not the usual ones."""

    name: str
    model: Model
    texts: tuple[str, ...] = ()
    run: Path | None = None  # the folder of its training
    step: int | None = None  # of that, where it is known: the model does not change when it goes on
    folder: str = ""  # or the name that it was loaded by; none: it was made here


def served(models: Mapping[str, Served], id: str) -> Served:
    if id not in models:
        raise no_model()
    return models[id]


def samples(served: Served) -> list[Sample]:
    """What fits its kind; numbers, where there is no tokenizer to read with."""
    model = served.model
    if served.texts:
        return [Sample(text=text) for text in served.texts]
    config, kind = model.task.backbone.config, model.task.spec.kind
    if model.tokenizer is None:
        count = min(7, config.max_length, config.vocab_size)
        return [Sample(text=" ".join(str(config.vocab_size * i // count) for i in range(count)))]
    if config.family == "seq2seq":
        return [Sample(text=text) for text in SOURCES]
    if config.family == "decoder":
        return [Sample(text=text) for text in BEGINNINGS + TEXTS]
    found = [Sample(text=text) for text in TEXTS]
    pairs = [Sample(text=a, second=b) for a, b in PAIRS]
    mask = mask_of(model.tokenizer)
    if kind in ("masked_lm", "masked_lm_nsp") and mask is not None:
        found = [Sample(text=text.replace("[MASK]", mask)) for text in BLANKS] + found
    if kind == "next_sentence":
        return pairs + found
    return found + (pairs if config.segments else [])
