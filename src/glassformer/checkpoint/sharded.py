"""Read the weights of a sharded checkpoint, written by torch.distributed.checkpoint.

Each file has shares of tensors, and in its metadata where they begin in the whole tensors. This
reader needs one process and none of torch's sharding.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import CheckpointError, shown
from glassformer.safe_files import locate
from glassformer.strictjson import parse
from glassformer.tensor_files import open_tensors

SHARDED = "sharded"  # the folder of the shares in a checkpoint
PLACES, OFFSETS = "DCP_SHARDING_INFO", "saved_offsets"  # torch's names in the metadata
KINDS = ("average", "master")  # the weights for inference are averages, if there are any


def is_sharded(folder: Path) -> bool:
    return (folder / SHARDED).is_dir()


def read_weights(folder: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The whole weights for inference, of these names and shapes."""
    tensors: dict[str, dict[str, Tensor]] = {kind: {} for kind in KINDS}
    filled: dict[tuple[str, str], int] = {}
    for path in sorted((folder / SHARDED).glob("*.safetensors")):
        name = path.relative_to(folder).as_posix()
        with open_tensors(locate(folder, name) or path, "pt") as file:
            places = _places(file.metadata(), str(path))
            for key in file.keys():  # noqa: SIM118
                kind, _, parameter = key.partition("/")
                if kind not in KINDS:  # of the optimiser
                    continue
                if parameter not in shapes:
                    raise CheckpointError(f"{path}: tensor {shown(key)} is not in this model")
                whole = tensors[kind].setdefault(parameter, torch.empty(shapes[parameter]))
                share = file.get_tensor(key)
                _target(whole, share, places.get(key), f"{path}: tensor {shown(key)}").copy_(share)
                filled[kind, parameter] = filled.get((kind, parameter), 0) + share.numel()
    kind = next((kind for kind in KINDS if tensors[kind]), KINDS[-1])
    for name, shape in shapes.items():
        if filled.get((kind, name), 0) != torch.Size(shape).numel():
            raise CheckpointError(f"{folder / SHARDED}: parts of the tensor {name!r} are missing")
    return tensors[kind]


def _places(metadata: Mapping[str, str] | None, source: str) -> dict[str, Any]:
    text = (metadata or {}).get(PLACES)
    if text is None:
        raise CheckpointError(f"{source}: {PLACES} is missing in its metadata")
    places: dict[str, Any] = parse(text.encode(), f"{source}: {PLACES}")
    return places


def _target(whole: Tensor, share: Tensor, place: Any, source: str) -> Tensor:
    """The part of `whole` that a share belongs to."""
    offsets: Any = place.get(OFFSETS) if isinstance(place, dict) else None
    fits = (
        isinstance(offsets, list)
        and len(offsets) == whole.dim() == share.dim()
        and all(isinstance(each, int) and each >= 0 for each in offsets)
        and all(o + n <= w for o, n, w in zip(offsets, share.shape, whole.shape, strict=True))
    )
    if not fits or share.dtype != torch.float32:
        raise CheckpointError(
            f"{source}: {share.dtype}, shape {list(share.shape)} at {shown(offsets)} does not fit "
            f"into float32 of shape {list(whole.shape)}"
        )
    slices = tuple(slice(o, o + n) for o, n in zip(offsets, share.shape, strict=True))
    return whole[slices]
