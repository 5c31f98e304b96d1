"""Compare the sizes in a config with the file and the memory before anything is allocated."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping

from glassformer.config import ModelConfig, TaskConfig
from glassformer.errors import CheckpointError, ConfigError

SMALL = 1 << 24  # elements of a parameter: below this, a wrong shape is reported later
SMALL_TABLE = 1 << 21  # elements of a computed table, which is allocated at once
WORK = 20  # bytes per element of such a table while it is computed
LAYERS = ("heads", "key_heads", "mlp_width")  # first fields of the matrices in each layer
DECODER = "decoder_"  # before the fields of a seq2seq model's decoder
MIN_TENSORS = 4  # of a layer in a file; real layers have 5 or more


def check_sizes(
    config: ModelConfig,
    task: TaskConfig,
    names: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    size: int,
    source: str,
) -> None:
    """Raise a CheckpointError that names the field if a size cannot be right.

    `names` are the file's names of our fields, `shapes` and `size` (bytes) those of its tensors.
    """

    def spelt(*fields: str) -> str:
        usual = [field.removeprefix(DECODER) for field in fields]
        return " × ".join(
            names.get(own, names.get(other, own)) for own, other in zip(fields, usual, strict=True)
        )

    depth = config.own_blocks
    if depth * MIN_TENSORS > len(shapes):
        raise CheckpointError(
            f"{source}: {spelt('depth')}: {depth} layers in the config and {len(shapes)} tensors "
            "in the file: they do not match"
        )
    total = sum(math.prod(shape) for shape in shapes.values())
    for fields, count in _matrices(config, task).items():
        if count > max(total, SMALL):
            raise CheckpointError(
                f"{source}: {spelt(*fields)} is {count:,} elements, and the whole file has "
                f"{total:,}"
            )
    table, fields = _tables(config)
    if table > max(total, SMALL_TABLE):
        raise CheckpointError(
            f"{source}: {spelt(*fields)} needs a table of {table:,} elements, and the whole file "
            f"has {total:,}"
        )
    needed, available = size + table * WORK, memory()
    if needed > available:
        raise CheckpointError(
            f"{source}: the model needs {needed:,} bytes of memory, and there are {available:,}"
        )


def check_memory(config: ModelConfig, task: TaskConfig, each: int, source: str) -> None:
    """ConfigError if a new model does not fit into the memory; `each` weight takes so many bytes.

    Biases and norms, which are small, are not counted.
    """
    later = config.decoder_depth or 0
    depths = dict.fromkeys(LAYERS, 2 * (config.own_blocks - later))
    depths |= {DECODER + name: 2 * later for name in LAYERS}
    sizes = _matrices(config, task)
    totals = {name: count * depths.get(name[0], 1) for name, count in sizes.items()}
    needed = sum(totals.values()) * each + _tables(config)[0] * WORK
    available = memory()
    if needed > available:
        fields = max(totals, key=lambda name: totals[name])
        known = [field for field in fields if hasattr(config, field)]
        named = ", ".join(f"{field} = {getattr(config, field)}" for field in known)
        raise ConfigError(
            f"{source}: model: {named}: training needs at least {needed:,} bytes of memory, and "
            f"there are {available:,.0f}: make it smaller"
        )


def memory() -> float:
    """The memory of this machine, in bytes; infinity if unknown."""
    if sys.platform == "win32":  # it has no such call: too large a model fails later
        return math.inf
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        return math.inf


def _matrices(config: ModelConfig, task: TaskConfig) -> dict[tuple[str, ...], int]:
    """The elements of each kind of parameter, by the fields that determine them."""
    C, table = config.width, config.table_width
    sizes: dict[tuple[str, ...], int] = {
        ("vocab_size", "embedding_width"): config.vocab_size * table,
        ("segments", "embedding_width"): config.segments * table,
        ("width", "embedding_width"): C * max(C, table),
        ("labels", "width"): len(task.labels) * config.output_stack.width,
    }
    stacks = {"": config, DECODER: config.output_stack}
    for side, own in stacks.items() if config.family == "seq2seq" else [("", config)]:
        query = own.heads * own.query_width
        key = own.group_heads * max(own.query_width, own.mixed_width)
        sizes |= {
            (f"{side}heads", f"{side}head_width", f"{side}width"): query * own.width,
            (f"{side}key_heads", f"{side}head_width", f"{side}width"): key * max(C, own.width),
            (f"{side}mlp_width", f"{side}width"): own.mlp_width * own.width,
        }
    if config.position == "learned":
        rows = config.max_length + config.position_offset
        sizes["max_length", "embedding_width"] = rows * table
    if config.distances == "bias":
        sizes["relative_buckets", "heads"] = config.relative_buckets * config.heads
    if config.distances == "disentangled":
        sizes["relative_buckets", "width"] = config.relative_buckets * C
    return sizes


def _tables(config: ModelConfig) -> tuple[int, tuple[str, ...]]:
    """The elements of the computed tables, and the fields that determine them."""
    stacks = 2 if config.family == "seq2seq" else 1
    if config.position == "sinusoidal":
        rows = config.max_length + config.position_offset
        return stacks * rows * config.table_width, ("max_length", "embedding_width")
    if config.position == "rotary":
        bases = 1 if config.window is None or config.local_rotary_base is None else 2
        return stacks * bases * config.max_length * config.rotary_width, (
            "max_length", "head_width",
        )  # fmt: skip
    if config.distances == "disentangled":
        return 2 * config.relative_distance + 1, ("relative_distance",)
    return 0, ()
