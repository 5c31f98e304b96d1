"""The models that a studio serves, and example texts for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.loaded import Model
from glassformer.studio.schemas import Sample
from glassformer.studio.tokenization import mask_token

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
TEXT_SET = (  # for Space: a word with two meanings at the same position, and words of a kind
    "I sat by the river bank.",
    "We walked along the river bank.",
    "I put money in the bank.",
    "She took money from the bank.",
    "The cat chased the mouse.",
    "The dog chased the cat.",
    "She ate bread and cheese.",
    "He drank milk and water.",
)
MAX_ID = 56  # characters
SOURCES = ("The cat sat on the mat", "I love to play soccer", "I ate the apple")


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model, its name, and example texts if the usual ones do not suit it."""

    name: str
    model: Model
    texts: tuple[str, ...] = ()
    run: Path | None = None  # the folder of its training run
    step: int | None = None  # the checkpoint of that run it was loaded from, if known
    folder: str = ""  # or the name that it was loaded by; empty: a toy, trained here


def model_ids(names: Sequence[str]) -> list[str]:
    """Ids for addresses: from the names, so that a link opens the same model in another studio."""
    ids: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w.-]+", "-", name).strip("-.")[-MAX_ID:] or "model"
        same = sum(id == plain or id.startswith(f"{plain}~") for id in ids)
        ids.append(f"{plain}~{same + 1}" if same else plain)
    return ids


def samples(served: ServedModel) -> list[Sample]:
    """Example texts for a model's task; token ids if it has no tokenizer."""
    model = served.model
    if served.texts:
        return [Sample(text=text) for text in served.texts]
    config, calls = model.task.backbone.config, model.task.spec.traits.calls
    if model.tokenizer is None:
        count = min(7, config.max_length, config.vocab_size)
        return [Sample(text=" ".join(str(config.vocab_size * i // count) for i in range(count)))]
    if config.family == "seq2seq":
        return [Sample(text=text) for text in SOURCES]
    if config.family == "decoder":
        return [Sample(text=text) for text in BEGINNINGS + TEXTS]
    texts = [Sample(text=text) for text in TEXTS]
    pairs = [Sample(text=a, second=b) for a, b in PAIRS]
    mask = mask_token(model.tokenizer)
    if "fill" in calls and mask is not None:
        texts = [Sample(text=text.replace("[MASK]", mask)) for text in BLANKS] + texts
    if calls == ("follows",):
        return pairs + texts
    return texts + (pairs if config.segments else [])


def text_set(served: ServedModel) -> list[str]:
    """Texts whose words are compared; of a toy, or without a tokenizer, its examples."""
    if served.texts or served.model.tokenizer is None:
        return [each.text for each in samples(served)]
    return list(TEXT_SET)
