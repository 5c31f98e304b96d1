"""Three toy models, one of each family, trained in seconds on the lectures' sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers, processors

from glassformer.config import Family, ModelConfig, TaskConfig, TaskKind, TokenIds
from glassformer.loaded import Model
from glassformer.model import Batch
from glassformer.studio.samples import ServedModel
from glassformer.tasks import Task, build_task
from glassformer.text import Tokenizer
from glassformer.toys import seeded

UNKNOWN, FIRST, LAST, BLANK, START = "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<start>"
SENTENCES = (
    "the pizza came out of the oven and it tasted good !",
    "i sat by the river bank .",
    "i deposited money in the bank .",
    "paul went shopping . he bought a new shirt .",
    "ramona made coffee .",
    "i ate the apple .",
    "i love to play soccer .",
    "the cat sat on the mat .",
)
ORDERS = ("man ordered the chicken", "woman ordered the beef", "the cat sat on the mat")
WHO = {"cat": "кот", "dog": "пёс", "man": "мужчина"}
DOES = {"sat": "сел", "lay": "лёг"}
WHERE = {"mat": "коврик", "sofa": "диван", "chair": "стул"}
WHEN = {"": "", "yesterday ": "вчера "}  # a word's position must not determine its translation
PAIRS = tuple(
    (
        f"{when}the {who} {does} on the {where}",
        f"{WHEN[when]}{WHO[who]} {DOES[does]} на {WHERE[where]}",
    )
    for when in WHEN
    for who in WHO
    for does in DOES
    for where in WHERE
)


def toy(name: str) -> ServedModel:
    """Train the toy of this name (a key of TOYS); the result is always the same."""
    with seeded(0):
        return TOYS[name]()


def toys() -> list[ServedModel]:
    return [toy(name) for name in TOYS]


def _encoder() -> ServedModel:
    """A masked language model: every word of every sentence is masked once."""
    tokenizer = _tokenizer(SENTENCES, (UNKNOWN, FIRST, LAST, BLANK), f"{FIRST} $A {LAST}")
    task = _task("encoder", "masked_lm", tokenizer)
    blank, ids, labels = tokenizer.id(BLANK) or 0, [], []
    for encoding in tokenizer.encode_all(SENTENCES):
        for place in range(1, len(encoding.ids) - 1):
            ids.append([blank if i == place else word for i, word in enumerate(encoding.ids)])
            labels += [word if i == place else -100 for i, word in enumerate(encoding.ids)]
    _train(task, [replace(Batch.of(ids), labels=torch.tensor(labels))], steps=60)
    return ServedModel(
        "toy encoder", Model(task, tokenizer).eval(),
        ("I deposited [MASK] in the bank.", "I sat by the river [MASK].",
         "The pizza came out of the [MASK] and it tasted good!"),
    )  # fmt: skip


def _decoder() -> ServedModel:
    """A causal language model; after the last word of a sentence comes the start token."""
    tokenizer = _tokenizer(ORDERS, (UNKNOWN, START), f"{START} $A")
    task = _task("decoder", "causal_lm", tokenizer)
    ids = [encoding.ids for encoding in tokenizer.encode_all(ORDERS)]
    labels = [word for row in ids for word in (*row[1:], row[0])]
    _train(task, [replace(Batch.of(ids), labels=torch.tensor(labels))], steps=60)
    return ServedModel(
        "toy decoder", Model(task, tokenizer).eval(),
        ("man ordered the", "woman ordered the", "the cat sat on the mat"),
    )  # fmt: skip


def _translator() -> ServedModel:
    words = [text for pair in PAIRS for text in pair]
    tokenizer = _tokenizer(words, (UNKNOWN, START, LAST), f"$A {LAST}")
    task = _task("seq2seq", "translation", tokenizer)
    start = tokenizer.id(START) or 0
    batches = []
    for pairs in (PAIRS[: len(PAIRS) // 2], PAIRS[len(PAIRS) // 2 :]):  # of one length each
        sources, targets = (
            [each.ids for each in tokenizer.encode_all(texts)] for texts in zip(*pairs, strict=True)
        )
        batch = Batch.of([[start, *each[:-1]] for each in targets], source=Batch.of(sources))
        batches.append(replace(batch, labels=torch.tensor(targets).flatten()))
    _train(task, batches, steps=120)
    return ServedModel(
        "toy translator", Model(task, tokenizer).eval(),
        ("The cat sat on the mat", "The dog lay on the sofa", "The man sat on the chair"),
    )  # fmt: skip


def _tokenizer(texts: Sequence[str], special: Sequence[str], around: str) -> Tokenizer:
    """A word-level tokenizer for these texts."""
    known = dict.fromkeys((*special, *(word for text in texts for word in text.split())))
    ids = {word: i for i, word in enumerate(known)}
    backend = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    named = [(word, ids[word]) for word in special]
    backend.post_processor = processors.TemplateProcessing(single=around, special_tokens=named)
    backend.add_special_tokens(list(special))
    return Tokenizer(backend)


def _task(family: Family, kind: TaskKind, tokenizer: Tokenizer) -> Task:
    config = ModelConfig(
        family=family, vocab_size=len(tokenizer), width=32, depth=2, heads=4, mlp_width=64,
        max_length=32, init_std=0.1,
        ids=TokenIds(start=tokenizer.id(START), end=tokenizer.id(LAST)),
    )  # fmt: skip
    return build_task(config, TaskConfig(kind=kind))


def _train(task: Task, batches: Sequence[Batch], *, steps: int) -> None:
    """Every step takes all batches. A CPU attends to texts of one length at once and to others one
    by one, so it is faster if the texts of a batch have one length."""
    optimiser = torch.optim.AdamW(task.parameters(), lr=0.01)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = 0.01 * min(1, (step + 1) / 20) * (1 - step / steps)
        losses = [task(batch).losses["labels"] for batch in batches]
        total = torch.stack([each.total for each in losses]).sum()
        optimiser.zero_grad()
        (total / torch.stack([each.count for each in losses]).sum()).backward()
        optimiser.step()


TOYS = {"toy encoder": _encoder, "toy decoder": _decoder, "toy translator": _translator}
