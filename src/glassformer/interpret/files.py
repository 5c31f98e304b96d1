"""Probes, lenses and steering vectors as safetensors files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from glassformer.errors import CheckpointError, InputError
from glassformer.strictjson import parse
from glassformer.tensor_files import open_tensors


def save_tensors(
    path: str | os.PathLike[str], format: str, tensors: Mapping[str, Tensor], about: dict[str, Any]
) -> None:
    """Write tensors and what they are about to one file."""
    metadata = {"format": format, "about": json.dumps(about, ensure_ascii=False)}
    data = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        Path(path).write_bytes(safetensors.torch.save(data, metadata))
    except OSError as error:
        raise InputError(f"{path}: the file cannot be written: {error}") from None


def load_tensors(
    path: str | os.PathLike[str], format: str, names: Mapping[str, int]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a file that `save_tensors` wrote, with tensors of these names and numbers of axes."""
    try:
        with open_tensors(path, "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = parse(metadata.get("about", ""), str(path))
    except CheckpointError as error:
        raise InputError(f"not a {format} file: {error}") from None
    if metadata.get("format") != format or {n: t.dim() for n, t in tensors.items()} != names:
        raise InputError(f"{path}: not a {format} file: write one with its save(…)")
    return tensors, about
