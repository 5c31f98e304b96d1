"""Checks and dtypes of the tensors in a file of weights."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from glassformer.errors import CheckpointError, shown

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def check_finite(tensors: Mapping[str, Tensor], folder: object) -> None:
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS or not tensor.numel():
            continue
        if not torch.stack(tensor.aminmax()).isfinite().all():  # both are NaN if there is one
            raise CheckpointError(
                f"{folder}: tensor {shown(name)} contains NaN or infinity: it is damaged, or "
                "its training diverged"
            )


def in_storage_dtype(
    tensors: dict[str, Tensor], stored: Mapping[str, torch.dtype]
) -> dict[str, Tensor]:
    """In the file's dtypes if that is exact: weights trained since then stay float32."""
    wide = {name: t for name, t in tensors.items() if name in stored and t.dtype == torch.float32}
    narrow = {name: tensor.to(stored[name]) for name, tensor in wide.items()}
    same = all(torch.equal(narrow[name].float(), tensor) for name, tensor in wide.items())
    return {**tensors, **narrow} if same else tensors
