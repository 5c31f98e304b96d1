"""Read the weights of a sharded checkpoint, written by torch.distributed.checkpoint.

Each file has shares of tensors, which are some of their rows, and in its metadata where they begin
in the whole tensors. This reader needs one process and none of torch's sharding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import CheckpointError, shown
from glassformer.precision import dtype_name
from glassformer.safe_files import locate, open_plain
from glassformer.strictjson import parse
from glassformer.tensor_files import open_tensors, read_header

SHARDED = "sharded"  # the folder of the shares in a checkpoint
PLACES, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # torch's names in the metadata
KINDS = ("average", "master")  # the weights for inference are averages, if there are any


def is_sharded(folder: Path) -> bool:
    return (folder / SHARDED).is_dir()


@dataclass(frozen=True)
class Share:
    """Rows of a tensor, in one of the files."""

    name: str  # of the tensor
    start: int  # its first row
    shape: tuple[int, ...]
    path: Path
    key: str  # its name in the file


def open_shares(folder: Path) -> list[Share]:
    """The shares of the weights for inference, by file; no weight is read."""
    kinds: dict[str, list[Share]] = {kind: [] for kind in KINDS}
    for each in sorted((folder / SHARDED).glob("*.safetensors")):
        name = each.relative_to(folder).as_posix()
        path, file = locate(folder, name), open_plain(folder, name)
        if path is None or file is None:
            raise CheckpointError(f"{each}: there is no such file")
        with file:
            header = read_header(file, os.fstat(file.fileno()).st_size, str(each))
        places = _places(header.metadata, str(each))
        for key, shape in header.shapes.items():
            kind, _, parameter = key.partition("/")
            if kind in KINDS and all(shape):  # others are of the optimiser
                start = _start(places.get(key), shape, f"{each}: tensor {shown(key)}")
                kinds[kind].append(Share(parameter, start, shape, path, key))
    return next((shares for shares in kinds.values() if shares), [])


def elements(shares: Sequence[Share]) -> dict[str, int]:
    """The number of elements that the files have of each tensor."""
    counts: dict[str, int] = {}
    for share in shares:
        counts[share.name] = counts.get(share.name, 0) + math.prod(share.shape)
    return counts


def read_weights(
    folder: Path, shares: Sequence[Share], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Tensor]:
    """The whole weights, of these names and shapes. All shares are checked before memory is
    allocated: each row must be there once."""
    parts: dict[str, list[Share]] = {name: [] for name in shapes}
    for share in shares:
        if share.name not in parts:
            raise CheckpointError(f"{share.path}: tensor {shown(share.key)} is not in this model")
        parts[share.name].append(share)
    for name, shape in shapes.items():
        _check_rows(parts[name], shape, f"{folder / SHARDED}: tensor {name!r}")
    weights = {name: torch.empty(shape) for name, shape in shapes.items()}
    for path, group in groupby(shares, key=lambda share: share.path):
        with open_tensors(path, "pt") as file:
            for share in group:
                rows = file.get_tensor(share.key)
                if rows.dtype != torch.float32:
                    raise CheckpointError(
                        f"{path}: tensor {shown(share.key)} has dtype {dtype_name(rows.dtype)}: "
                        "write float32"
                    )
                weights[share.name][share.start : share.start + len(rows)] = rows
    return weights


def _check_rows(shares: Sequence[Share], shape: tuple[int, ...], source: str) -> None:
    end = 0
    for share in sorted(shares, key=lambda share: share.start):
        if share.shape[1:] != shape[1:] or share.start + share.shape[0] > shape[0]:
            raise CheckpointError(
                f"{source}: a share of shape {list(share.shape)} at row {share.start:,} does not "
                f"fit into the shape {list(shape)} that the config needs"
            )
        if share.start < end:
            raise CheckpointError(f"{source}: row {share.start:,} is in more than one share")
        if share.start > end:
            break
        end += share.shape[0]
    if end < shape[0]:
        raise CheckpointError(f"{source}: row {end:,} is missing")


def _places(metadata: Mapping[str, str], source: str) -> dict[str, Any]:
    text = metadata.get(PLACES)
    if text is None:
        raise CheckpointError(f"{source}: {PLACES} is missing in its metadata")
    places: dict[str, Any] = parse(text.encode(), f"{source}: {PLACES}")
    return places


def _start(place: Any, shape: tuple[int, ...], source: str) -> int:
    """The first row of a share."""
    offsets: Any = place.get(OFFSETS) if isinstance(place, dict) else None
    fits = (
        isinstance(offsets, list)
        and len(offsets) == len(shape) > 0
        and all(type(each) is int and each >= 0 for each in offsets)
        and not any(offsets[1:])
    )
    if not fits:
        raise CheckpointError(
            f"{source}: {OFFSETS} = {shown(offsets)} does not fit the shape {list(shape)}: write "
            "the first row, and 0 for each further dimension"
        )
    return int(offsets[0])
