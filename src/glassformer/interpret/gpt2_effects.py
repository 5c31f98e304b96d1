"""Two effects that were published for GPT-2 small; they need its weights."""

from __future__ import annotations

import random

import torch

from glassformer.errors import InputError
from glassformer.glass.edits import word_id
from glassformer.inference import check_tokenizer
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.loaded import Model

NAMES = (
    "Mary", "John", "Tom", "James", "Dan", "Martin", "Amy", "Jack", "Paul", "Mark", "Kate", "Lisa",
    "Alex", "Jason", "Ryan", "Laura", "Kevin", "Sarah",
)  # fmt: skip
PLACES, OBJECTS = ("store", "garden", "school", "station"), ("drink", "book", "ring", "bone")
TEMPLATES = (
    "When {0} and {1} went to the {place}, {2} gave a {object} to",
    "Then, {0} and {1} went to the {place}. {2} gave a {object} to",
    "After {0} and {1} went to the {place}, {2} gave a {object} to",
)
NOUNS = ("war", "siege", "voyage", "campaign", "journey", "reign")


@torch.no_grad()
def indirect_objects(model: Model, *, count: int = 120, seed: int = 0) -> list[ReproducedEffect]:
    """logit(indirect object) − logit(subject): "When Mary and John went …, John gave a book to"."""
    _check_decoder(model)
    draw, tokenizer = random.Random(seed), check_tokenizer(model.tokenizer)  # noqa: S311
    ids = {name: word_id(model, name) for name in NAMES}
    texts, pairs = [], []
    for _ in range(count):
        giver, taker = draw.sample(NAMES, 2)
        first, second = draw.sample((giver, taker), 2)
        words = {"place": draw.choice(PLACES), "object": draw.choice(OBJECTS)}
        texts.append(draw.choice(TEMPLATES).format(first, second, giver, **words))
        pairs.append((ids[taker], ids[giver]))
    logits = model.logits([tokenizer.encode(text).ids for text in texts])
    rows = [row[-1] for row in logits]
    differences = torch.stack([row[a] - row[b] for row, (a, b) in zip(rows, pairs, strict=True)])
    mean, share = float(differences.mean()), float((differences > 0).float().mean())
    return [
        ReproducedEffect(
            effect="indirect objects: difference of logits, and prompts where it is positive",
            paper="Wang et al. 2022",
            published="3.56, 99.3 %",
            ours=f"{mean:.2f}, {share:.1%}".replace("%", " %"),
            holds=mean > 0 and share > 0.5,
        )
    ]


@torch.no_grad()
def greater_than(model: Model) -> list[ReproducedEffect]:
    """P(years after) − P(years before): "The war lasted from the year 1732 to the year 17"."""
    _check_decoder(model)
    tokenizer = check_tokenizer(model.tokenizer)
    years = {year: tokenizer.id(f"{year:02}") for year in range(100)}
    known = torch.tensor([year for year, id in years.items() if id is not None])
    if len(known) < 90:
        raise InputError(
            f"greater-than: {len(known)} of 100 two-digit years are one token here: use GPT-2"
        )
    columns = torch.tensor([years[year] for year in known.tolist()])
    texts, starts = [], []
    for number, start in enumerate(range(11, 90, 2)):
        noun = NOUNS[number % len(NOUNS)]
        texts.append(f"The {noun} lasted from the year 17{start} to the year 17")
        starts.append(start)
    logits = model.logits([tokenizer.encode(text).ids for text in texts])
    shares = []
    for row, start in zip(logits, starts, strict=True):
        chances = row[-1].softmax(-1).cpu()[columns]
        shares.append(chances[known > start].sum() - chances[known <= start].sum())
    mean = float(torch.stack(shares).mean())
    return [
        ReproducedEffect(
            effect="greater-than: probability of later years minus earlier ones",
            paper="Hanna et al. 2023",
            published="81.7 %",
            ours=f"{100 * mean:.1f} %",
            holds=mean > 0,
        )
    ]


def _check_decoder(model: Model) -> None:
    if model.config.family != "decoder":
        raise InputError(
            f"these effects are GPT-2's, and the family of this model is {model.config.family}"
        )
