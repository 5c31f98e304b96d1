"""The two toys of the first lecture: one causal head learns what a bigram table cannot.

A bigram table only knows how often one word follows another. An attention head can look back and
see who ordered.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.config import ModelConfig
from glassformer.glass import Recorder, Trace
from glassformer.model import Attention, Batch, Context, Embedding, Visitor
from glassformer.model.init import initialise
from glassformer.tasks import cross_entropy
from glassformer.tasks.heads import LMHead


@dataclass(frozen=True)
class Toy:
    words: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...]  # the target after the last word is words[0]

    @property
    def ids(self) -> list[list[int]]:
        return [[self.words.index(word) for word in text] for text in self.texts]

    @property
    def targets(self) -> list[list[int]]:
        """The next word at each position."""
        return [[*ids[1:], 0] for ids in self.ids]

    def bigrams(self) -> Tensor:  # (V, V)
        """The probability of each next word (column) after a word (row), from counts of pairs."""
        rows = zip(self.ids, self.targets, strict=True)
        counts = Counter(pair for ids, nexts in rows for pair in zip(ids, nexts, strict=True))
        table = torch.zeros(len(self.words), len(self.words))
        for (word, after), count in counts.items():
            table[word, after] = count
        return table / table.sum(1, keepdim=True).clamp(min=1)


FIRST = Toy(
    words=("<start>", "the", "man", "chicken", "ordered"),
    texts=(("<start>", "the", "man", "ordered", "the", "chicken"),),
)
SECOND = Toy(
    words=("<ST>", "the", "man", "chkn", "ordrd", "woman", "beef"),
    texts=(
        ("<ST>", "man", "ordrd", "the", "chkn"),
        ("<ST>", "woman", "ordrd", "the", "beef"),
    ),
)


class OneHead(nn.Module):
    """Token + position embeddings, one causal head of width 20, an LM head. Nothing else."""

    def __init__(self, toy: Toy, width: int = 20) -> None:
        super().__init__()
        config = ModelConfig(
            family="decoder",
            vocab_size=len(toy.words),
            width=width,
            depth=1,
            heads=1,
            mlp_width=1,
            max_length=max(map(len, toy.texts)),
            attention_bias=False,
            tied=False,
            init_std=0.3,
        )
        self.embedding = Embedding(config)
        self.attention = Attention(config, layer=0)
        self.words = LMHead(config, bias=False)
        initialise(self, config)

    def forward(self, batch: Batch, visitor: Visitor | None = None) -> Tensor:  # (N, V)
        texts = batch.sequences
        ctx = Context(
            queries=texts,
            keys=texts,
            texts=texts.texts(batch.tokens),
            positions=texts.positions(batch.tokens),
            causal=True,
            visitor=visitor,
        )
        x = self.embedding(batch, ctx.positions, ctx)
        mixed = self.attention(x, ctx)
        return ctx.see(self, "logits", self.words(mixed, self.embedding.token.weight))


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: with matrices this small, several threads mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


_training = threading.Lock()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """One thread and random numbers from `seed`, for one training at a time: both belong to the
    whole process."""
    with _training, one_thread(), torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        yield


STEPS = 400


def train(toy: Toy, model: OneHead, *, steps: int = STEPS) -> Iterator[float]:
    """Train to predict the next word; yields the loss of each step."""
    batch = Batch.of(toy.ids)
    labels = torch.tensor([word for text in toy.targets for word in text])
    # Weight decay keeps the scores small, so that the head does not settle on one word too early.
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.3)
    for _ in range(steps):
        loss = cross_entropy(model(batch), labels).mean
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.item()


def look(toy: Toy, model: OneHead, text: int = 0) -> Trace:
    """Record every tensor of the head for one of the toy's texts."""
    model.eval()
    recorder = Recorder(model)
    with torch.no_grad():
        model(Batch.of([toy.ids[text]]), visitor=recorder)
    return Trace(recorder.tensors, list(toy.texts[text]))


def best_mixture(
    x: Tensor, targets: Tensor, *, causal: bool = False
) -> Tensor:  # (T, C), (T, C) → (T, C)
    """W · x for the W (T, T) that comes nearest to the targets, by least squares.

    With `causal`, row t mixes the rows up to t only.
    """
    rows = []
    for t, target in enumerate(targets):
        seen = x[: t + 1] if causal else x
        weights = torch.linalg.lstsq(seen.T, target[:, None], driver="gelsd").solution
        rows.append(seen.T @ weights[:, 0])
    return torch.stack(rows)


@dataclass(frozen=True)
class Cue:
    """The probability of the right next word where a bigram table does not know it, and what is
    left of it when the positions, or the words before, are replaced by their mean."""

    text: int
    place: int
    target: str
    whole: float
    no_positions: float
    no_words: float


def cues(toy: Toy, model: OneHead) -> list[Cue]:
    """Measure what the head uses, at each word that a bigram table cannot continue and the text up
    to there can."""
    table = toy.bigrams()
    rows = list(zip(toy.ids, toy.targets, strict=True))
    return [
        _cue(toy, model, text, place)
        for text, (ids, _) in enumerate(rows)
        for place, word in enumerate(ids)
        if table[word].max() < 1
        and len({after[place] for each, after in rows if each[: place + 1] == ids[: place + 1]})
        == 1
    ]


def _cue(toy: Toy, model: OneHead, text: int, place: int) -> Cue:
    target = toy.targets[text][place]
    average = model.embedding.token.weight.detach().mean(0)

    def no_words(vectors: Tensor) -> Tensor:
        own = torch.arange(len(vectors)) == place
        return torch.where(own[:, None], vectors, average)

    def probability(edit: Mapping[str, Callable[[Tensor], Tensor]]) -> float:
        recorder = Recorder(model.eval(), "logits", edit)
        with torch.no_grad():
            model(Batch.of([toy.ids[text]]), visitor=recorder)
        return float(recorder.tensors["logits"][place].softmax(-1)[target])

    return Cue(
        text,
        place,
        toy.words[target],
        whole=probability({}),
        no_positions=probability(
            {"embedding.positions": lambda rows: rows.mean(0, keepdim=True).expand_as(rows)}
        ),
        no_words=probability({"embedding.tokens": no_words}),
    )


ENOUGH = 0.75  # well above one half, so that a tie is not taken for knowledge


def conclusion(measured: Sequence[Cue]) -> str:
    """One sentence: which of the two the head used, and what it keeps without the other. A cue is
    enough if each right word keeps a probability of at least `ENOUGH`."""
    whole, words, positions = (
        min(values)
        for values in zip(*((c.whole, c.no_positions, c.no_words) for c in measured), strict=True)
    )
    if whole < ENOUGH:
        return "This head has not learnt the right words: choose another seed."
    verdict = {
        (True, True): "can use either",
        (True, False): "uses the words before",
        (False, True): "uses the position",
        (False, False): "needs both",
    }[words >= ENOUGH, positions >= ENOUGH]
    return (
        f"This head {verdict}: the right words keep a probability of at least {words:.2f} without "
        f"positions and {positions:.2f} without the words before."
    )
