"""Before anything is built: what a config asks for, in integers, and whether it is there."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import CheckpointError

SMALL = 1 << 24  # numbers of a matrix without memory; a smaller mistake is named by its shape
SMALL_TABLE = 1 << 21  # numbers of a computed table, which has memory
WORK = 20  # bytes that one number of such a table takes while it is made
LEAST_TENSORS = 4  # that a layer has in a file; in fact 5 or more


def check_sizes(
    config: ModelConfig,
    task: TaskConfig,
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    size: int,
    source: str,
) -> None:
    """`names` are our fields in the words of the file, `size` is the bytes of its tensors."""

    def spelt(*fields: str) -> str:
        return " × ".join(names.get(field, field) for field in fields)

    depth = config.depth + (config.decoder_depth or 0)
    if depth * LEAST_TENSORS > len(shapes):
        raise CheckpointError(
            f"{source}: {spelt('depth')}: {depth} layers in the config and {len(shapes)} tensors "
            "in the file: they do not belong together"
        )
    held = sum(math.prod(shape) for shape in shapes.values())
    for fields, count in _matrices(config, task).items():
        if count > max(held, SMALL):
            raise CheckpointError(
                f"{source}: {spelt(*fields)} is {count:,} numbers, and the whole file holds "
                f"{held:,}"
            )
    table, fields = _tables(config)
    if table > max(held, SMALL_TABLE):
        raise CheckpointError(
            f"{source}: {spelt(*fields)} needs a table of {table:,} numbers, and the whole file "
            f"holds {held:,}"
        )
    needed, there = size + table * WORK, memory()
    if needed > there:
        raise CheckpointError(
            f"{source}: the model needs {needed:,} bytes of memory, and this machine has {there:,}"
        )


def memory() -> float:
    """Of this machine, in bytes."""
    if sys.platform == "win32":  # it has no such call: what is too large fails later
        return math.inf
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return math.inf


def _matrices(config: ModelConfig, task: TaskConfig) -> dict[tuple[str, ...], int]:
    """The sizes a config gives, by its fields."""
    C, table = config.width, config.table_width
    key = config.group_heads * max(config.query_width, config.mixed_width)
    found = {
        ("vocab_size", "embedding_width"): config.vocab_size * table,
        ("segments", "embedding_width"): config.segments * table,
        ("width", "embedding_width"): C * max(C, table),
        ("heads", "head_width", "width"): config.heads * config.query_width * C,
        ("key_heads", "head_width", "width"): key * C,
        ("mlp_width", "width"): config.mlp_width * C,
        ("labels", "width"): len(task.labels) * C,
    }
    if config.position == "learned":
        rows = config.max_length + config.position_offset
        found["max_length", "embedding_width"] = rows * table
    if config.position == "relative":
        found["relative_buckets", "heads"] = config.relative_buckets * config.heads
    return found


def _tables(config: ModelConfig) -> tuple[int, tuple[str, ...]]:
    """How many numbers are computed, and by which fields."""
    stacks = 2 if config.family == "seq2seq" else 1
    if config.position == "sinusoidal":
        return stacks * config.max_length * config.table_width, ("max_length", "embedding_width")
    if config.position == "rotary":
        bases = 1 if config.window is None else 2
        return stacks * bases * config.max_length * config.query_width, ("max_length", "head_width")
    return 0, ()
