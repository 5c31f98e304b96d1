"""Activation patching: put activations of one text into another, and see what is recovered.

The corrupted text differs from the clean one in a word or two. A cell of the sweep is the model on
the corrupted text with one activation of the clean text in it:

    recovered = (m(patched) − m(corrupted)) / (m(clean) − m(corrupted)),   m = logit(a) − logit(b)

1 where this activation alone brings back the clean answer, 0 where it changes nothing. Meng et al.
2022, "Locating and editing factual associations in GPT"; Wang et al. 2022, "Interpretability in the
wild". All cells of a layer are one batch, which starts at that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, InputError
from glassformer.glass.lens import output_side
from glassformer.glass.recorder import Recorder
from glassformer.interpret.contrast import Contrast, ask_pair
from glassformer.interpret.reroute import Layers, blocks_of, rerouted, stacks_of
from glassformer.loaded import Model
from glassformer.model import Block
from glassformer.model.context import Context
from glassformer.model.stack import Stack

Site = Literal["stream", "attention", "mlp", "head", "cross", "cross_head"]
# The tensor of a block that is replaced; with heads, one of (T, H, D).
TENSORS = {
    "stream": "out",
    "attention": "attention.out",
    "mlp": "mlp.out",
    "head": "attention.mixed",
    "cross": "cross.out",
    "cross_head": "cross.mixed",
}
ROW = 4096  # tokens of a batch


@dataclass(frozen=True, eq=False)
class Sweep:
    """m of the corrupted text with one clean activation in it, for every cell."""

    site: Site
    stack: str
    tokens: tuple[list[str], list[str]]  # of this stack, clean and corrupted
    words: tuple[str, str]  # of which the logits are compared
    clean: float
    corrupted: float
    patched: Tensor  # (L, T); of heads (L, H), all tokens at once, or by token (L, T, H)

    @property
    def effect(self) -> Tensor:
        """How far each patch moves the corrupted text's difference of logits."""
        return self.patched - self.corrupted

    @property
    def recovered(self) -> Tensor:
        """The share of the difference between the texts; InputError if there is none."""
        whole = self.clean - self.corrupted
        if abs(whole) < 1e-6:
            raise InputError(
                "the two texts have the same difference of logits, so nothing can be recovered: "
                "write a corrupted text that changes the prediction"
            )
        return self.effect / whole


@torch.no_grad()
def patching_sweep(
    model: Model, clean: Any, corrupted: Any, answer: str | int | None = None,
    other: str | int | None = None, *, site: Site = "stream", stack: str | None = None,
    position: int | None = None, by_token: bool = False,
) -> Sweep:  # fmt: skip
    """Patch every cell of a model, layer × token or layer × head.

    Args:
        clean: the input of `record`; for a translation model (source, target)
        corrupted: another one with the same number of tokens
        answer: the clean text's word, or its id; the model's best one, if not given
        other: the corrupted text's word; the model's best one there, if not given
        site: stream (the output of a block), attention, mlp, cross, head or cross_head
        stack: encoder or decoder; the one that predicts, if not given
        position: the token that predicts; the mask of an encoder, the last one of a decoder
        by_token: patch heads at one token at a time, not at all tokens at once
    """
    pair = ask_pair(model, clean, corrupted, answer, other, position=position)
    return sweep(*pair, site=site, stack=stack, by_token=by_token)


@torch.no_grad()
def sweep(
    clean: Contrast, corrupted: Contrast, *, site: Site = "stream", stack: str | None = None,
    by_token: bool = False,
) -> Sweep:  # fmt: skip
    """The same for a contrast of two texts."""
    stack = stack or output_side(clean.task)
    body = checked_stack(clean, site, stack)
    source, base = activations(clean, site, stack), streams(corrupted)
    length, heads = len(corrupted.side(stack)), blocks_of(body)[0].attention.heads
    whole = "head" in site and not by_token
    places = [None] if whole else list(range(length))
    numbers = list(range(heads)) if "head" in site else [None]
    cells = [(place, head) for place in places for head in numbers]
    rows = []
    for layer in range(len(body.blocks)):
        parts = [
            _patched(corrupted, stack, layer, site, part, source[layer], base)
            for part in _chunks(cells, max(1, ROW // corrupted.length))
        ]
        rows.append(torch.cat(parts))
    shape = (-1, heads) if whole else (-1, length, heads) if "head" in site else (-1, length)
    return Sweep(
        site=site,
        stack=stack,
        tokens=(clean.side(stack), corrupted.side(stack)),
        words=clean.words,
        clean=clean.value(),
        corrupted=corrupted.value(),
        patched=torch.stack(rows).reshape(shape).cpu(),
    )


Cell = tuple[int | None, int | None]  # token, head; None: all


def checked_stack(contrast: Contrast, site: str, stack: str) -> Stack:
    """The stack of this name; ConfigError if the model lacks it, or it has no such activation."""
    if site not in get_args(Site):
        raise ConfigError(f"site = {site!r}: write {', '.join(get_args(Site))}")
    body = getattr(contrast.task.backbone, stack, None)
    if not isinstance(body, Stack):
        raise ConfigError(f"stack = {stack!r}: this model has {output_side(contrast.task)!r}")
    if site.startswith("cross") and blocks_of(body)[0].cross is None:
        raise ConfigError(f"site = {site!r}: this {stack} has no cross-attention")
    return body


def activations(contrast: Contrast, site: Site, stack: str) -> list[Tensor]:
    """The tensors of this site, one for each layer: (T, C), of heads (T, H, D)."""
    names = recorded(contrast, f"{stack}.blocks.*.{TENSORS[site]}")
    if site == "stream":  # the pattern is also that of the outputs inside the block
        names = {name: t for name, t in names.items() if name.count(".") == 3}
    return list(names.values())


def streams(contrast: Contrast) -> dict[str, list[Tensor]]:
    """What each block reads, by stack, and last what the last one writes. (T, C) each."""
    tensors, by_stack = recorded(contrast, "*.embedding.out", "*.blocks.*.out"), {}
    for name, body in stacks_of(contrast.task).items():
        blocks = [tensors[f"{name}.blocks.{layer}.out"] for layer in range(len(body.blocks))]
        by_stack[name] = [tensors[f"{name}.embedding.out"], *blocks]
    return by_stack


def recorded(contrast: Contrast, *patterns: str) -> dict[str, Tensor]:
    recorder = Recorder(contrast.model, keep=patterns)
    contrast.model(contrast.batch, visitor=recorder)
    return recorder.tensors


def _patched(
    contrast: Contrast, stack: str, layer: int, site: Site, cells: list[Cell], source: Tensor,
    base: dict[str, list[Tensor]],
) -> Tensor:  # fmt: skip
    """m of each cell: a batch of corrupted texts that starts at `layer`."""
    body, count = getattr(contrast.task.backbone, stack), len(cells)

    def computed(x: Tensor, ctx: Context) -> Tensor:
        x = base[stack][layer].to(x.dtype).repeat(count, 1)
        for number in range(layer, len(body.blocks)):
            here = replace(ctx, visitor=patch if number == layer else None)
            x = body.blocks[number](x, body.at(number, here))
        return x

    patch = _Patch(body.blocks[layer], TENSORS[site], lambda old: _mixed(old, source, cells))
    stacks: dict[str, Layers] = {stack: computed}
    if stack == "decoder" and "encoder" in base:  # the source is the same in all cells
        stacks["encoder"] = lambda x, ctx: base["encoder"][-1].to(x.dtype).repeat(count, 1)
    logits = rerouted(contrast.task, stacks)(contrast.copies(count)).logits  # (count, V)
    return contrast.difference(logits)


class _Patch:
    """A visitor that changes one tensor of one block."""

    def __init__(self, block: Block, name: str, change: Callable[[Tensor], Tensor]) -> None:
        part, _, last = name.rpartition(".")
        self.place = (block.get_submodule(part), last)
        self.change = change

    def wants(self, module: nn.Module, name: str) -> bool:
        return False

    def visit(self, module: nn.Module, name: str, value: Tensor) -> Tensor:
        return self.change(value) if (module, name) == self.place else value


def _mixed(old: Tensor, source: Tensor, cells: list[Cell]) -> Tensor:
    """`old`, (cells · T, …), with the activation of each cell from `source`, (T, …)."""
    new = old.clone().unflatten(0, (len(cells), -1))
    for row, (place, head) in zip(new, cells, strict=True):
        at = slice(None) if place is None else place
        index = at if head is None else (at, head)
        row[index] = source[index].to(row)
    patched: Tensor = new.flatten(0, 1)
    return patched


def _chunks(cells: list[Cell], size: int) -> Iterator[list[Cell]]:
    for start in range(0, len(cells), size):
        yield cells[start : start + size]
