"""A checkpoint's tensor names as data: one table, used in both directions, bit for bit.

    Row("encoder.layer.{}.attention.self.query.*", "backbone.encoder.blocks.{}.attention.query.*")

`{}` is a layer's number, `*` is weight or bias. Every tensor of a file belongs to one row and every
parameter is filled by one: anything else is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.config import ModelConfig
from glassformer.errors import CheckpointError, shown

# Older files call a norm's weight and bias gamma and beta.
_LEAVES = {"weight": ("weight", "gamma"), "bias": ("bias", "beta")}


@dataclass(frozen=True)
class Row:
    theirs: str
    ours: str | tuple[str, ...]  # several: their tensor is ours concatenated
    transpose: bool = False  # they store the matrix transposed
    lift: bool = False  # they store the vector as a matrix of one row
    body: bool = False  # a part of the head with the body's prefix
    when: tuple[str, object] | None = None  # only if our config has this value of a field
    tied: bool = False  # a second copy, in some files, of a tensor of another row
    by_head: bool = False  # theirs has a part of each of ours for head 0, then for head 1 …


@dataclass(frozen=True)
class Link:
    """A row for one layer: this tensor of theirs is these of ours."""

    theirs: str
    ours: tuple[str, ...]
    row: Row
    heads: int = 1  # more only if the row is by_head

    def to_ours(self, tensor: Tensor, shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        if self.row.lift:
            tensor = tensor[0]
        if self.row.transpose and tensor.dim() == 2:
            tensor = tensor.T
        sizes = [shapes[name][0] // self.heads for name in self.ours]
        parts = tensor.unflatten(0, (self.heads, -1)).split(sizes, 1)
        return dict(zip(self.ours, (p.flatten(0, 1).contiguous() for p in parts), strict=True))

    def to_theirs(self, state: Mapping[str, Tensor]) -> Tensor:
        parts = [state[name] for name in self.ours]
        if len(parts) > 1:
            parts = [part.unflatten(0, (self.heads, -1)) for part in parts]
        tensor = parts[0] if len(parts) == 1 else torch.cat(parts, 1).flatten(0, 1)
        if self.row.transpose and tensor.dim() == 2:
            tensor = tensor.T
        tensor = tensor[None] if self.row.lift else tensor
        return tensor.clone() if self.row.tied else tensor.contiguous()

    def as_copy(self) -> Link:
        """The same for a second tensor of theirs that holds a copy."""
        return replace(self, row=replace(self.row, tied=True))

    def shape(self, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        """The shape that their tensor must have."""
        first = tuple(shapes[self.ours[0]])
        shape = (sum(shapes[name][0] for name in self.ours), *first[1:])
        if self.row.transpose and len(shape) == 2:
            shape = shape[::-1]
        return (1, *shape) if self.row.lift else shape


def links(
    rows: Iterable[Row], ours: Collection[str], config: ModelConfig | None = None
) -> list[Link]:
    """The links of all rows for a model with these tensors."""
    filled_in: dict[str, Link] = {}
    for row in rows:
        if row.when is not None and getattr(config, row.when[0]) != row.when[1]:
            continue
        targets = (row.ours,) if isinstance(row.ours, str) else row.ours
        pattern = _pattern(targets[0])
        for name in ours:
            match = pattern.fullmatch(name)
            if match is None:
                continue
            filled = tuple(_fill(target, match) for target in targets)
            heads = config.heads if row.by_head and config is not None else 1
            link = Link(_fill(row.theirs, match), filled, row, heads)
            filled_in.setdefault(link.theirs, link)  # an untied output comes before its tied row
    return list(filled_in.values())


def pair(
    needed: Sequence[Link],
    names: Collection[str],
    prefix: str,
    source: str,
    optional: Collection[str],
) -> dict[str, Link]:
    """Find the tensor of the file for each link: name in the file → link.

    In most files the body of a model with a head has a prefix. Tied copies and constant tables
    (`optional`) may be missing. If several rows name one of our tensors, the first of them that the
    file has counts.
    """
    paired: dict[str, Link] = {}
    missing: dict[tuple[str, ...], Link] = {}
    filled: set[tuple[str, ...]] = set()
    for link in needed:
        spellings = [p + name for name in _spellings(link.theirs) for p in (prefix, "")]
        name = next((spelling for spelling in spellings if spelling in names), None)
        if link.row.tied:
            paired |= {} if name is None else {name: link}
        elif name is None:
            missing.setdefault(link.ours, link)
        elif link.ours not in filled:
            paired[name] = link
            filled.add(link.ours)
    for ours, link in missing.items():
        if ours not in filled and not all(each in optional for each in ours):
            raise CheckpointError(
                f"{source}: tensor {link.theirs!r} is missing: the config needs it"
            )
    return paired


def check_known(names: Iterable[str], patterns: Iterable[str], prefix: str, source: str) -> None:
    """Tensors that the model does not use must belong to another head: they are kept."""
    leaves = "|".join(leaf for names in _LEAVES.values() for leaf in names)
    spelt = [name for pattern in patterns for name in _spellings(pattern)]
    known = [_pattern(p + name, leaves) for name in spelt for p in (prefix, "")]
    for name in names:
        if not any(pattern.fullmatch(name) for pattern in known):
            raise CheckpointError(
                f"{source}: tensor {shown(name)} belongs to no part of this architecture: remove "
                "it, or correct the file's config.json"
            )


def _pattern(template: str, leaves: str = "weight|bias") -> re.Pattern[str]:
    text = re.escape(template).replace(r"\{\}", r"(?P<layer>\d+)", 1)
    return re.compile(text.replace(r"\*", f"(?P<leaf>{leaves})"))


def _fill(template: str, match: re.Match[str]) -> str:
    groups = match.groupdict()
    return template.replace("{}", groups.get("layer") or "").replace("*", groups.get("leaf") or "")


def _spellings(name: str) -> list[str]:
    stem, _, leaf = name.rpartition(".")
    return [f"{stem}.{spelling}" for spelling in _LEAVES.get(leaf, ())] or [name]
