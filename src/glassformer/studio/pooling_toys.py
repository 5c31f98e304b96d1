"""Hierarchical attention on a few film reviews, in the lecture's variants, trained in seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import tokenizers
import torch
from tokenizers import models, normalizers, pre_tokenizers
from torch import Tensor, nn

from glassformer.config import ModelConfig, TaskConfig
from glassformer.data.prepare import sentences
from glassformer.loaded import Model
from glassformer.model import Batch, Sequences
from glassformer.studio.jobs import Report, silent
from glassformer.tasks import Important, build_task
from glassformer.tasks.label import Classification
from glassformer.text import Tokenizer
from glassformer.toys import seeded

UNKNOWN = "[UNK]"
LABELS = ("negative", "positive")
JUDGEMENTS = (
    *((label, f"I {word} the {what}!") for label, word in enumerate(("hated", "loved"))
      for what in ("movie", "film")),
    *((label ^ negated, f"The {what} was {'not ' * negated}{word}.") for negated in (0, 1)
      for label, words in enumerate((("dull", "boring"), ("great", "wonderful")))
      for word in words for what in ("story", "music", "end", "plot")),
)  # fmt: skip
OTHERS = (
    "We saw it on a rainy night.", "The room was full.", "It was late.", "My friends came too.",
    "The film has two parts.", "The music was quiet.", "I read the story first.",
    "The end was in the morning.", "The movie was long.", "The plot has a king.",
)  # fmt: skip


def _review(number: int, judgement: str) -> str:
    """One sentence of judgement, at any place among others."""
    around = [OTHERS[(3 * number + i) % len(OTHERS)] for i in range(2)]
    return " ".join([*around[: number % 3], judgement, *around[number % 3 :]])


# Each judgement among other sentences, and alone. With “not”, two words of a sentence decide: two
# heads can attend to one each, and a single vector v gives most weight to one of them.
REVIEWS = (
    *((label, _review(number, each)) for number, (label, each) in enumerate(JUDGEMENTS)),
    *JUDGEMENTS,
)
WIDTH, MAPPED, STEPS = 8, 8, 200


@dataclass(frozen=True)
class Variant:
    name: str
    formula: str
    options: dict[str, Any] = field(default_factory=dict)  # of `Important`


VARIANTS = (
    Variant("one vector", "r = v · x"),
    Variant("linear", "r = v · (W x + b)", {"mapped": MAPPED}),
    Variant("non-linear", "r = v · tanh(W x + b)", {"mapped": MAPPED, "activation": "tanh"}),
    Variant("two heads", "r₁ = v₁ · x, r₂ = v₂ · x", {"heads": 2}),
)


def reviews_tokenizer() -> Tokenizer:
    """The words of the reviews, lowercased."""
    splitter = pre_tokenizers.Whitespace()
    words = [word for _, text in REVIEWS for word, _ in splitter.pre_tokenize_str(text.lower())]
    ids = {word: i for i, word in enumerate(dict.fromkeys((UNKNOWN, *words)))}
    backend = tokenizers.Tokenizer(models.WordLevel(ids, unk_token=UNKNOWN))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = splitter
    return Tokenizer(backend)


def random_vectors() -> Tensor:  # (V, WIDTH)
    """Fixed vectors that know nothing of the words."""
    return torch.randn(len(reviews_tokenizer()), WIDTH, generator=torch.Generator().manual_seed(1))


def train_variants(vectors: Tensor | None = None, report: Report = silent) -> list[Model]:
    """All variants, on vectors that are trained with them, or on these, which stay as they are."""

    def report_part(unit: str, done: int, of: int) -> None:
        report(unit, len(trained) * of + done, len(VARIANTS) * of)

    trained: list[Model] = []
    for variant in VARIANTS:
        trained.append(train_variant(variant, vectors, report_part))
    return trained


def reviews_right(model: Model) -> int:
    """How many of the reviews a trained variant labels correctly."""
    guesses = model.classify([review for _, review in REVIEWS])
    return sum(
        guess.label == LABELS[label] for guess, (label, _) in zip(guesses, REVIEWS, strict=True)
    )


def train_variant(
    variant: Variant, vectors: Tensor | None = None, report: Report = silent
) -> Model:
    """A classifier of reviews; with `vectors`, on these, which are not trained."""
    tokenizer = reviews_tokenizer()
    width = WIDTH if vectors is None else vectors.shape[1]
    with seeded(0):
        config = ModelConfig(
            family="encoder", vocab_size=len(tokenizer), width=width, depth=0, heads=1,
            mlp_width=width, max_length=64, position="none", final_norm=False, init_std=0.1,
        )  # fmt: skip
        spec = TaskConfig(kind="classification", labels=LABELS, pool="hierarchy")
        task = build_task(config, spec)
        assert isinstance(task, Classification)  # noqa: S101 - its kind
        task.important = Important(width, sentences=True, **variant.options)
        table = task.backbone.token_embedding
        assert isinstance(table, nn.Parameter)  # noqa: S101 - a table of vectors
        if vectors is not None:
            table.data.copy_(vectors)
            table.requires_grad_(False)
        _fit(task, tokenizer, report)
    return Model(task, tokenizer).eval()


def _fit(task: Classification, tokenizer: Tokenizer, report: Report) -> None:
    texts = [sentences(review) for _, review in REVIEWS]
    ids = [encoding.ids for each in texts for encoding in tokenizer.encode_all(each)]
    batch = replace(
        Batch.of(ids), documents=Sequences.of([len(each) for each in texts]),
        labels=torch.tensor([label for label, _ in REVIEWS]),
    )  # fmt: skip
    trained = [each for each in task.parameters() if each.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=0.02, weight_decay=0.1)
    for step in range(STEPS):
        report("step", step, STEPS)
        loss = task(batch).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
