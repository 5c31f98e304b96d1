"""How well cross attention agrees with alignments of words by human annotators."""

from __future__ import annotations

from collections.abc import Sequence

from glassformer.data.readers.alignments import Gold, Link
from glassformer.errors import InputError
from glassformer.generate.align import AlignedWords, align, error_rate
from glassformer.inference import check_tokenizer
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.loaded import Model


def word_alignments(model: Model, gold: Sequence[Gold]) -> list[ReproducedEffect]:
    """The alignment error rate of each block's cross attention, and of words in order.

    Args:
        model: a translation model for the languages of `gold`
    """
    if not gold:
        raise InputError("the hand alignments have no sentences: write one at least")
    depth = model.config.output_stack.depth
    rates = {layer: error_rate(links(model, gold, layer), gold) for layer in range(depth)}
    order = error_rate([in_order(each) for each in gold], gold)
    best = min(rates, key=lambda layer: rates[layer])
    return [
        ReproducedEffect(
            effect=f"alignment error rate of cross attention, {len(gold)} sentences",
            paper="Chen et al. 2020",
            published="attention weights capture word alignments",
            ours=f"{rates[best]:.3f} in block {best}; words in order {order:.3f}",
            holds=rates[best] < order,
        )
    ]


def links(model: Model, gold: Sequence[Gold], layer: int) -> list[list[Link]]:
    """The words that choose each other by the weights of a block; none in texts too long for it."""
    tokenizer, rows = check_tokenizer(model.tokenizer), []
    for each in gold:
        sides = AlignedWords.joined(each.source), AlignedWords.joined(each.target)
        try:
            rows.append(align(model.task, tokenizer, *sides, layers=[layer]).links(mutual=True))
        except InputError:
            rows.append([])
    return rows


def in_order(gold: Gold) -> list[Link]:
    """Each target word with the source word at the same share of the sentence."""
    return [(j * len(gold.source) // len(gold.target), j) for j in range(len(gold.target))]
