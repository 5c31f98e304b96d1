"""The lecture's parameter table: how many parameters a model has, and where.

Every shape is read from the model itself, built without memory; there are no separate formulas.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

from torch import nn

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import ConfigError
from glassformer.tasks import Task, outline

Per = Literal["model", "block", "head"]
Group = Literal[
    "embeddings", "attention", "cross attention", "MLP", "norms", "final norm", "pooler", "head"
]
ORDER, STACKS = get_args(Group), ("encoder", "decoder", "")
INSIDE: dict[str, Group] = {"attention": "attention", "cross": "cross attention", "mlp": "MLP"}

MAX_ELEMENTS = 1 << 40  # elements of a matrix: beyond 2⁶³ bytes torch fails with a traceback


@dataclass(frozen=True)
class Part:
    """A table, a norm, or a linear layer with its bias; and how often the model has it."""

    stack: str  # encoder or decoder; "" for the head
    group: Group
    name: str  # as in the model: token, query, up
    per: Per  # there is one per model, block or head
    shape: tuple[int, ...]  # of one; a linear layer is in × out as on the slides
    bias: int  # elements of its bias
    heads: int = 1  # per block, where there is one per head
    blocks: int = 1

    @property
    def single(self) -> int:
        return math.prod(self.shape) + self.bias

    @property
    def count(self) -> int:
        return self.single * self.heads * self.blocks


@dataclass(frozen=True)
class Sizes:
    """The table. Shared weights, such as those of a tied output layer, are counted once."""

    parts: tuple[Part, ...]

    @property
    def bare(self) -> int:
        """Without the head. A pooler is not a head: BertModel has one, too."""
        return sum(part.count for part in self.parts if part.group != "head")

    @property
    def with_head(self) -> int:
        return sum(part.count for part in self.parts)

    @property
    def per_head(self) -> int:
        """Query, key and value of one attention head; of the encoder, if there are two stacks."""
        heads = (part for part in self.parts if part.per == "head" and part.group == "attention")
        return sum({part.name: part.single for part in reversed([*heads])}.values())

    @property
    def per_block(self) -> dict[str, int]:
        """One block of each stack, its heads included."""
        counts: Counter[str] = Counter()
        for part in self.parts:
            if part.per != "model":
                counts[part.stack] += part.single * part.heads
        return dict(counts)

    def groups(self) -> dict[tuple[str, Group], list[Part]]:
        """By stack and group, in the order of the model."""
        groups: dict[tuple[str, Group], list[Part]] = {}
        for part in self.parts:
            groups.setdefault((part.stack, part.group), []).append(part)
        return groups


@lru_cache(maxsize=128)  # a list of all presets is asked for more than once
def measure(config: ModelConfig, task: TaskConfig) -> Sizes:
    """Count the parameters of a model with this head, without allocating them."""
    _check(config)
    if config.position in ("sinusoidal", "rotary"):  # computed tables: no parameters
        config = config.model_copy(update={"position": "none"})
    if config.distances == "disentangled":
        config = config.model_copy(update={"relative_distance": config.relative_buckets})
    counts = Counter(_parts(outline(config, task)))  # equal blocks have equal parts
    parts = [replace(part, blocks=blocks) for part, blocks in counts.items()]
    parts.sort(key=_order)
    return Sizes(tuple(parts))


def _order(part: Part) -> tuple[int, int, str]:
    """In the order of the model; norms by name, as the first block may lack one."""
    name = part.name if part.group == "norms" else ""
    return STACKS.index(part.stack), ORDER.index(part.group), name


def _check(config: ModelConfig) -> None:
    """Refuse sizes that no model has: a config may come from an untrusted folder."""
    both = (config, config.output_stack)
    rows = max(config.vocab_size, config.segments, config.relative_buckets)
    rows = max(rows, config.max_length + config.position_offset)
    for own in both:
        attention = own.heads * max(own.query_width, own.mixed_width)
        rows = max(rows, own.mlp_width, attention, own.width)
    largest = rows * max(max(own.width, own.table_width) for own in both)
    if largest > MAX_ELEMENTS:
        raise ConfigError(
            f"a matrix of {largest:,} elements, more than {MAX_ELEMENTS:,}: "
            "look for a wrong size in the config"
        )


def _parts(model: Task) -> Iterator[Part]:
    """Each module with weights of its own; a shared one comes once."""
    config = model.backbone.config
    for path, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if not own:
            continue
        stack, group, name, per = _locate(path)
        weight, *bias = own.values()
        shape, heads = tuple(weight.shape), 1
        if isinstance(module, nn.Linear):
            shape = shape[::-1]
        if per == "head":
            side = config if stack == "encoder" else config.output_stack
            heads = side.heads if name == "query" else side.group_heads
            shape = (shape[0], shape[1] // heads)
        if "weight" not in own:  # a tied output layer: only the bias is its own
            name += ".bias"
        yield Part(stack, group, name, per, shape, sum(b.numel() for b in bias) // heads, heads)


def _locate(path: str) -> tuple[str, Group, str, Per]:
    """The stack, group and name of a module, and whether there is one per model, block or head."""
    match path.split("."):
        case ["backbone", stack, "embedding", name]:
            return stack, "embeddings", name, "model"
        case ["backbone", stack, "relative" | "distances" as kind, name]:
            return stack, "embeddings", f"{kind}.{name}", "model"
        case ["backbone", stack, "relative_layers", _, name]:
            return stack, "embeddings", f"relative.{name}", "model"
        case ["backbone", stack, "blocks", _, norm]:
            return stack, "norms", norm, "block"
        case ["backbone", stack, "blocks", _, inside, name]:
            per_head = name in ("query", "key", "value")
            return stack, INSIDE[inside], name, "head" if per_head else "block"
        case ["backbone", stack, "norm"]:
            return stack, "final norm", "norm", "model"
        case ["pooler", name]:
            return "", "pooler", name, "model"
        case names:
            return "", "head", ".".join(names), "model"
