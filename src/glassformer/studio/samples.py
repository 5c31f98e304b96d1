"""The models that a studio serves, and example texts for each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.config import DOCUMENTS
from glassformer.errors import InputError
from glassformer.loaded import Model
from glassformer.studio.schemas import Sample
from glassformer.studio.tokenization import mask_token, places_of, tokenize

MAX_ID = 56  # characters
AGREEMENT, COREFERENCE, INDUCTION = "agreement", "coreference", "induction"
MEANINGS, MASKED, NEXT, PAIRS = "two meanings", "masked word", "next word", "two sentences"
ALIGNMENT, REVIEW, ANSWERS = "alignment", "film review", "question and text"
TEXTS = (  # for every model that reads English: (phenomenon, text, how to find a head for it)
    (COREFERENCE, "The pizza came out of the oven and it tasted good!", "it>pizza"),
    (
        COREFERENCE,
        "The Law will never be perfect, but its application should be just.",
        "its>Law",
    ),
    (MEANINGS, "I sat by the river bank.", "bank>river"),
    (MEANINGS, "I deposited money in the bank.", "bank>money"),
)
BLANKS = (
    (AGREEMENT, "The keys to the cabinet [MASK] on the table.", "[MASK]>keys"),
    (AGREEMENT, "The key to the cabinets [MASK] on the table.", "[MASK]>key"),
    (COREFERENCE, "Mary said that [MASK] was tired.", "[MASK]>Mary"),
    (INDUCTION, "Tom likes tea. Mary likes coffee. Tom likes [MASK].", "induction"),
    (MEANINGS, "I deposited money in the [MASK].", "[MASK]>money"),
    (MASKED, "The pizza came out of the [MASK] and it tasted good!", "[MASK]>pizza"),
    (MASKED, "Dang! I'm out fishing and a huge trout just [MASK] my line!", "[MASK]>trout"),
)
BEGINNINGS = (
    (INDUCTION, "Mr. Blenkinsop smiled. Then Mr. Blen", "induction"),
    (AGREEMENT, "The keys to the old cabinet", "cabinet>keys"),
    (COREFERENCE, "The queen took off", "off>queen"),
    (
        COREFERENCE,
        "The restaurant refused to serve me a ham sandwich, because it",
        "it>restaurant",
    ),
    (NEXT, "The cat sat on", "on>cat"),
)
SOURCES = (
    (ALIGNMENT, "The cat sat on the mat", "cross:>cat"),
    (ALIGNMENT, "I love to play soccer", "cross:>soccer"),
    (AGREEMENT, "She was tired.", "cross:>tired"),
    (COREFERENCE, "The girl said that she was tired.", "encoder:she>girl"),
    (MEANINGS, "I sat by the river bank.", "encoder:bank>river"),
    (ALIGNMENT, "I ate the apple", "cross:>apple"),
)
REVIEWS = (  # for models with attention over words
    "I saw it on a rainy night. The room was full. I loved the movie! My friends came too.",
    "The actors are good and the music is beautiful. But the story is dull, and the end is a mess.",
    "I loved the movie!",
)
SENTENCE_PAIRS = (
    ("Paul went shopping.", "He bought a new shirt."),
    ("Ramona made coffee.", "Vanilla ice cream cones for sale."),
)
QUESTIONS = (
    ("What came out of the oven?", "The pizza came out of the oven and it tasted good!"),
    ("Where did the cat sit?", "The cat sat on the mat, and the dog lay on the sofa."),
)
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


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model, its name, and example texts if the usual ones do not suit it."""

    name: str
    model: Model
    texts: tuple[str, ...] = ()
    run: Path | None = None  # the folder of its training run
    step: int | None = None  # the checkpoint of that run it was loaded from, if known
    adapter: str = ""  # the folder of the adapter that is merged into it
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
    if model.tokenizer is not None and model.task.spec.pool in DOCUMENTS:
        return [Sample(text=text, group=REVIEW) for text in REVIEWS]
    if model.tokenizer is None:
        count = min(7, config.max_length, config.vocab_size)
        return [Sample(text=" ".join(str(config.vocab_size * i // count) for i in range(count)))]
    if config.family == "seq2seq":
        return _grouped(model, SOURCES)
    if config.family == "decoder":
        return _grouped(model, BEGINNINGS + TEXTS)
    pairs = [Sample(text=a, second=b, group=PAIRS) for a, b in SENTENCE_PAIRS]
    fills = "fill" in calls and mask_token(model.tokenizer) is not None
    texts = _grouped(model, BLANKS + TEXTS if fills else TEXTS)
    if calls == ("answer",):
        return [Sample(text=a, second=b, group=ANSWERS) for a, b in QUESTIONS]
    if calls == ("follows",):
        return pairs + texts
    return texts + (pairs if config.segments else [])


def text_set(served: ServedModel) -> list[str]:
    """Texts whose words are compared; of a toy, or without a tokenizer, its examples."""
    if served.texts or served.model.tokenizer is None:
        return [each.text for each in samples(served)]
    return list(TEXT_SET)


def _grouped(model: Model, texts: Sequence[tuple[str, str, str]]) -> list[Sample]:
    """Those of one phenomenon side by side; in their order else."""
    mask = mask_token(model.tokenizer) or "[MASK]"
    most = model.task.backbone.config.max_length
    texts = [each for each in texts if 0 < _length(model, each[1]) <= most]
    order = list(dict.fromkeys(group for group, _, _ in texts))
    return [
        Sample(
            text=text.replace("[MASK]", mask),
            group=group,
            find=_findable(model, text, find.replace("[MASK]", mask)),
        )
        for group, text, find in sorted(texts, key=lambda each: order.index(each[0]))
    ]


def _length(model: Model, text: str) -> int:
    """In tokens; 0 if the tokenizer cannot encode it."""
    try:
        return len(tokenize(model, text).ids)
    except InputError:
        return 0


def _findable(model: Model, text: str, find: str) -> str:
    """`find`, or nothing if this model's tokenizer does not know the words."""
    tokens = tokenize(model, text).tokens
    words = find.rpartition(":")[2].split(">") if ">" in find else []
    return find if all(places_of(word, tokens) for word in words if word) else ""
