"""The page Toy: one attention head against a table of word pairs."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer import toys
from glassformer.errors import InputError
from glassformer.studio.jobs import Report, silent
from glassformer.studio.page_schemas import Sheet, ToySheets

TOYS = {"first": toys.FIRST, "second": toys.SECOND}
ToyName = Literal["first", "second"]
Cells = list[list[str | float | None]]


SEED = 4  # of the head that is compared with the slide's W · X
KEPT = 16  # heads
heads: dict[tuple[ToyName, int], toys.OneHead] = {}  # those trained last


def trained(name: ToyName, seed: int, report: Report = silent) -> toys.OneHead:
    """The toy's head, trained from this seed as `glassformer demo` trains it."""
    if (name, seed) not in heads:
        with toys.seeded(seed):
            model = toys.OneHead(TOYS[name])
            for step, _ in enumerate(toys.train(TOYS[name], model)):
                report("step", step, toys.STEPS)
        for oldest in list(heads)[: max(0, len(heads) + 1 - KEPT)]:
            del heads[oldest]
        heads[name, seed] = model
    return heads[name, seed]


def toy_sheets(name: ToyName, seed: int, text: int, report: Report = silent) -> ToySheets:
    """What the trained head predicts and attends to, and why a bigram table cannot."""
    toy = TOYS[name]
    if not 0 <= text < len(toy.texts):
        raise InputError(f"text {text}: this toy has texts 0 to {len(toy.texts) - 1}")
    model = trained(name, seed, report)
    trace = toys.look(toy, model, text)
    words, columns = list(toy.texts[text]), ["", *toy.words]
    predictions = trace["logits"].softmax(-1)
    weights = trace["attention.weights"][0]
    masked: Cells = [
        [word, *(row[: i + 1]), *[None] * (len(row) - i - 1)]
        for i, (word, row) in enumerate(zip(words, weights.tolist(), strict=True))
    ]
    measured = toys.cues(toy, model)
    return ToySheets(
        words=[list(each) for each in toy.texts],
        conclusion=toys.conclusion(measured),
        python="from glassformer.studio.views.toy import toy_sheets\n\n"
        f"sheets = toy_sheets({name!r}, {seed}, {text})",
        sheets=[
            Sheet(
                title="One head: the next word (T×V)", columns=columns, shares=True,
                text="Rows are the words of the text, columns the vocabulary.",
                rows=_rows(words, predictions),
            ),
            Sheet(
                title="Attention weights (T×T)", columns=["", *words], rows=masked, shares=True,
                text="How much each word (row) takes from those up to it: a row sums to one.",
            ),
            Sheet(
                title="Words or position?", text=toys.conclusion(measured),
                columns=["right word", "p", "without positions", "without the words before"],
                rows=[
                    [f"{toy.texts[each.text][each.place]} → {each.target}", each.whole,
                     each.no_positions, each.no_words]
                    for each in measured
                ],
            ),
            Sheet(
                title="A bigram table (T×V)", columns=columns, shares=True,
                text="The same row for the same word, wherever it stands.",
                rows=_rows(words, toy.bigrams()[toy.ids[text]]),
            ),
            *mixture_sheets(report),
        ],
    )  # fmt: skip


def mixture_sheets(report: Report = silent) -> list[Sheet]:
    """The slide's W · X on the first toy: with X the bigram table it cannot work."""
    toy = toys.FIRST
    ids, words = toy.ids[0], list(toy.texts[0])
    x = toy.bigrams()[ids]
    targets = F.one_hot(torch.tensor(toy.targets[0]), len(toy.words)).float()
    one_hot = F.one_hot(torch.tensor(ids), len(toy.words)).float()
    nearest = toys.best_mixture(x, targets)
    head = toys.look(toy, trained("first", SEED, report))["logits"].softmax(-1)
    ways = {
        "bigram table, any W": nearest,
        "the words themselves, any W": toys.best_mixture(one_hot, targets),
        "the words themselves, W sees only earlier words": toys.best_mixture(
            one_hot, targets, causal=True
        ),
        f"a trained head (seed {SEED}): embeddings, learned q, k, v": head,
    }
    the = [i for i, word in enumerate(words) if word == "the"]
    return [
        Sheet(
            title="The slide's W · X cannot work", shares=True, columns=["", *toy.words],
            text="First toy, X the bigram table: its columns “man” and “chicken” are the same, so "
            "in every mixture of its rows they are the same, too. This is the best W of all "
            "(least squares): man and chicken stay at one half.",
            rows=_rows(words, nearest),
        ),
        Sheet(
            title="What works instead",
            columns=["W mixes", *(f"error at “the” {i}" for i in (1, 2))],
            text="Attention must mix what the words are (embeddings), not what a table says of "
            "them. Without a mask that is enough. A causal head has not yet seen the word that it "
            "must predict: a learned map of the values must turn what came before into what "
            "comes next.",
            rows=[
                [name, *((mixed[i] - targets[i]).abs().max().item() for i in the)]
                for name, mixed in ways.items()
            ],
        ),
    ]  # fmt: skip


def _rows(words: list[str], values: Tensor) -> Cells:
    rounded = (values.double() * 1e6).round() / 1e6 + 0.0
    return [[word, *row] for word, row in zip(words, rounded.tolist(), strict=True)]
