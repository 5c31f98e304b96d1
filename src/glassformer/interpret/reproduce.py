"""Published effects, on models that are here or trained in a minute, beside the papers' figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from glassformer.data.readers.alignments import Gold
from glassformer.errors import ConfigError
from glassformer.glass import head_scores, heads_off
from glassformer.interpret.gpt2_effects import greater_than, indirect_objects
from glassformer.interpret.grokking import PAPER, SMALL, grokking
from glassformer.interpret.induction import induction, induction_in_text
from glassformer.interpret.reproduced import ReproducedEffect
from glassformer.interpret.word_alignment import word_alignments
from glassformer.loaded import Model, load, record

NAMES = (
    "heads", "permuted", "induction", "grokking", "alignments", "indirect_objects", "greater_than",
)  # fmt: skip
TEXTS = (
    "The old man walked slowly down the road because his leg hurt.",
    "She opened the door and saw that the garden was full of snow.",
    "In the evening they sat by the fire and told each other stories.",
    "The river was wide, and nobody knew how deep it was.",
)
MASKED = (
    "The old [MASK] walked slowly down the road.",
    "She opened the [MASK] and saw the garden.",
    "In the evening they sat by the [MASK] and told stories.",
    "The river was wide, and nobody [MASK] how deep it was.",
)


def neighbour_heads() -> list[ReproducedEffect]:
    """Heads of gf-encoder that attend to the previous or to the next token."""
    model, sums = load("gf-encoder"), dict.fromkeys(("previous", "next"), torch.zeros(()))
    for text in TEXTS:
        scores = head_scores(record(model, text, keep="*.weights"), "encoder")
        sums = {kind: total + scores[kind] / len(TEXTS) for kind, total in sums.items()}
    published = {"previous": "4 of 144 heads above 0.5", "next": "5 of 144 heads above 0.5"}
    return [
        ReproducedEffect(
            effect=f"heads that attend to the {kind} token",
            paper="Clark et al. 2019",
            published=published[kind],
            ours=f"{int((scores > 0.5).sum())} of {scores.numel()} heads above 0.5, the best "
            f"{float(scores.max()):.2f}",
            holds=bool((scores > 0.5).any()),
        )
        for kind, scores in sums.items()
    ]


def permuted_attention(seed: int = 0) -> list[ReproducedEffect]:
    """How far predictions move if the weights of every head are permuted, and without any head."""
    model, draw = load("gf-encoder"), torch.Generator().manual_seed(seed)

    def permuted(weights: Tensor) -> Tensor:  # (H, T, S)
        return weights[..., torch.randperm(weights.shape[-1], generator=draw)]

    moved: dict[str, list[float]] = {"permuted": [], "removed": []}
    for text in MASKED:
        trace = record(model, text)
        place = trace.tokens.index("[MASK]")
        layers, heads = model.config.depth, model.config.heads
        everything = [("encoder", i, j) for i in range(layers) for j in range(heads)]
        edits: dict[str, Any] = {
            "permuted": {"*.attention.weights": permuted},
            "removed": heads_off(trace, everything),
        }
        before = trace["logits"][place].softmax(-1)
        for name, edit in edits.items():
            after = record(model, text, keep="logits", edit=edit)["logits"][place].softmax(-1)
            moved[name].append(float((before - after).abs().sum() / 2))
    means = {name: sum(values) / len(values) for name, values in moved.items()}
    return [
        ReproducedEffect(
            effect="total variation of predictions, attention permuted",
            paper="Jain and Wallace 2019",
            published="near 0 for many texts of one attention layer over an RNN",
            ours=f"{means['permuted']:.2f}; with all heads removed {means['removed']:.2f}",
            holds=means["permuted"] < 0.1,
        )
    ]


def reproduce(
    names: Sequence[str], *, gpt2: Model | None = None, translator: Model | None = None,
    gold: Sequence[Gold] = (), tokens: Tensor | None = None, full: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[ReproducedEffect]:  # fmt: skip
    """The effects of these names, one after the other; without what it needs, one is left out.

    Args:
        gpt2: for indirect_objects and greater_than
        translator: for alignments, with `gold`, the hand alignments of its languages
        tokens: for induction in text, the ids of gf-decoder; without, on random repeated tokens
        full: grokking as in the paper, for a GPU; otherwise a smaller version
        device: where models are trained
    """
    effects: dict[str, Callable[[], list[ReproducedEffect]]] = {
        "heads": neighbour_heads,
        "permuted": permuted_attention,
        "induction": partial(induction, device=device),
        "grokking": partial(grokking, PAPER if full else SMALL, device=device),
    }
    if tokens is not None:
        effects["induction"] = partial(induction_in_text, tokens, device=device)
    if translator is not None:
        effects["alignments"] = partial(word_alignments, translator, gold)
    if gpt2 is not None:
        effects["indirect_objects"] = partial(indirect_objects, gpt2)
        effects["greater_than"] = partial(greater_than, gpt2)
    for name in names:
        if name not in NAMES:
            raise ConfigError(f"effect {name!r}: write {', '.join(NAMES)}")
    return (row for name in names if name in effects for row in effects[name]())
