"""GGUF files of Llama and related models: weights, config and tokenizer in one file.

They are read, not written: such a model is saved as a folder of its architecture.
"""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.checkpoint.architecture import Architecture
from glassformer.checkpoint.gguf_header import GgufHeader
from glassformer.checkpoint.gguf_tokenizer import tokenizer_files
from glassformer.checkpoint.keys import Json, look_up, put
from glassformer.checkpoint.tables.gguf import FACTORS
from glassformer.checkpoint.tables.gguf_kinds import GGUF, PERMUTED, PLUS_ONE, fields
from glassformer.config import RotaryScaling
from glassformer.errors import CheckpointError, shown
from glassformer.model.position import scaled
from glassformer.safe_files import open_plain

KINDS = (
    "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K",
    "Q6_K", "IQ4_NL", "IQ4_XS",
)  # fmt: skip
LLAMA3: Mapping[str, Any] = {"original_length": 8192, "low": 1.0, "high": 4.0}
MOST_PAIRS = 4096  # of entries of a head that turn
AT_ONCE = 1024  # rows to dequantize: it needs a few times their memory


@dataclass(frozen=True)
class Stored:
    """A tensor in the file: its shape, quantization type and place."""

    shape: tuple[int, ...]
    kind: Any  # a GGMLQuantizationType
    start: int
    size: int  # bytes


@dataclass(frozen=True)
class GgufFile:
    """The content of a file, before any weight is read; the counterpart of `Contents`."""

    path: Path
    kind: str  # its architecture, as llama.cpp calls it
    config: Json  # its fields, and under "file" what its tensors show
    files: dict[str, bytes] = field(repr=False)  # its tokenizer, as files of a folder
    stored: dict[str, Stored] = field(repr=False)
    data: memoryview = field(repr=False)

    @property
    def architecture(self) -> Architecture:
        return GGUF[self.kind]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tensor.shape for name, tensor in self.stored.items()}

    @property
    def size(self) -> int:
        """Bytes of all weights, once they are dequantized."""
        return 4 * sum(math.prod(tensor.shape) for tensor in self.stored.values())

    def tensors(self) -> dict[str, Tensor]:
        """All weights in float32, which represents every quantization type exactly."""
        return {name: self._restored(name, self.tensor(name)) for name in self.stored}

    def tensor(self, name: str) -> Tensor:
        """One of them, its rows in the order of the file."""
        gguf, stored = _gguf(self.path), self.stored[name]
        packed = np.frombuffer(self.data, np.uint8, stored.size, stored.start)
        packed = packed.reshape(math.prod(stored.shape[:-1]), -1)
        rows = np.empty((len(packed), stored.shape[-1]), np.float32)
        with np.errstate(all="ignore"):  # NaN and infinity are refused by name, later
            for i in range(0, len(rows), AT_ONCE):
                rows[i : i + AT_ONCE] = gguf.dequantize(packed[i : i + AT_ONCE], stored.kind)
        return torch.from_numpy(rows).view(stored.shape)

    def _restored(self, name: str, tensor: Tensor) -> Tensor:
        """As other libraries have it.

        llama.cpp rotates neighbours, (0, 1), (2, 3) …; other libraries (0, D/2), (1, D/2 + 1) …

        Its rows of queries and keys are in the order 0, D/2, 1, D/2 + 1, …: undo that. Its norms of
        Gemma are 1 + γ.
        """
        if self.kind in PLUS_ONE and name.endswith("norm.weight"):
            return tensor - 1
        match = re.fullmatch(r"blk\.\d+\.(\w+)\.(weight|bias)", name)
        keys = PERMUTED.get(self.kind, {}).get(match[1]) if match else None
        if keys is None:
            return tensor
        heads = next(n for n in (look_up(self.config, key) for key in keys) if n is not None)
        pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])
        return pairs.transpose(1, 2).reshape(tensor.shape)


def is_gguf(path: str | os.PathLike[str]) -> bool:
    """Is this the name of a GGUF file?"""
    return Path(path).suffix == ".gguf" and not os.path.isdir(path)  # noqa: PTH112 - never raises


def open_gguf(path: str | os.PathLike[str]) -> GgufFile:
    """Open a file and check its header; its weights are not read yet."""
    path = Path(path)
    gguf = _gguf(path)
    file = open_plain(path.parent, path.name)
    if file is None:
        raise CheckpointError(f"File not found: {path.absolute()}: write the path of a GGUF file")
    with file:
        if not os.fstat(file.fileno()).st_size:
            raise CheckpointError(f"{path}: the file is empty")
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    header = GgufHeader(data, str(path))
    kind = header.value("general.architecture")
    if not isinstance(kind, str) or kind not in GGUF:
        known = ", ".join(map(repr, GGUF))
        raise header.wrong(f"general.architecture = {shown(kind)}: only {known} are supported")
    stored = _stored(header, gguf, len(data))
    config = _config(header, kind, stored)
    opened = GgufFile(path, kind, config, tokenizer_files(header), stored, data)
    return replace(opened, config=_with_scaling(opened, header)) if FACTORS in stored else opened


def _stored(header: GgufHeader, gguf: Any, size: int) -> dict[str, Stored]:
    """The tensors: each lies inside the file, and none overlaps another."""
    stored = {}
    kinds = {int(kind): kind for kind in gguf.GGMLQuantizationType}
    for name, info in header.tensors.items():
        what, kind = f"tensor {shown(name)}", kinds.get(info.kind)
        if kind is None or kind.name not in KINDS:
            word = kind.name if kind else info.kind
            raise header.wrong(f"{what} has type {word}: {', '.join(KINDS)} are supported")
        block, packed = gguf.GGML_QUANT_SIZES[kind]
        if info.shape[-1] % block:
            raise header.wrong(
                f"{what} has rows of {info.shape[-1]:,}: {kind.name} packs {block} at a time"
            )
        if info.offset % header.alignment:
            raise header.wrong(
                f"{what} has offset {info.offset}: not a multiple of {header.alignment}"
            )
        start = header.start + info.offset
        end = start + math.prod(info.shape) // block * packed
        if end > size:
            raise header.wrong(
                f"{what} ends at byte {end:,} of a file of {size:,}: the file is truncated"
            )
        stored[name] = Stored(info.shape, kind, start, end - start)
    end, before = 0, ""
    for name, tensor in sorted(stored.items(), key=lambda item: item[1].start):
        if tensor.start < end:
            raise header.wrong(f"tensors {shown(before)} and {shown(name)} overlap")
        end, before = tensor.start + tensor.size, name
    return stored


def _config(header: GgufHeader, kind: str, stored: dict[str, Stored]) -> Json:
    """The known fields, nested by their dots. An unknown one of the architecture is an error."""
    words = stored.get("token_embd.weight")
    config: Json = {
        "file": {
            "words": words.shape[0] if words else None,
            "tied": "output.weight" not in stored,
            "attention_bias": any(f"blk.0.attn_{q}.bias" in stored for q in ("q", "qkv")),
            "mlp_bias": "blk.0.ffn_up.bias" in stored,
        }
    }
    known = fields(kind)
    for name in header.fields:
        if name in known:
            config = put(config, name, header.value(name))
        elif name.startswith(f"{kind}."):
            raise header.wrong(f"field {shown(name)} is not known: it could change the arithmetic")
    return config


def _with_scaling(file: GgufFile, header: GgufHeader) -> Json:
    """The config with what the factors in the file are made of: those of Llama 3 are known."""
    shape, base = file.stored[FACTORS].shape, look_up(file.config, f"{file.kind}.rope.freq_base")
    reads = any("file.scaling.factor" in key.names for key in file.architecture.keys)
    known = reads and len(shape) == 1 and shape[0] <= MOST_PAIRS
    if known and (base is None or (type(base) is float and base > 1)):
        factors = file.tensor(FACTORS)
        width, factor = 2 * shape[0], factors.max().item()
        speed = 1 / (base or 10_000.0) ** (torch.arange(0, width, 2) / width)
        if 1 < factor < math.inf:
            scaling = RotaryScaling(kind="by_wavelength", factor=factor, **LLAMA3)
            if torch.allclose(speed / scaled(speed, scaling), factors, rtol=1e-4):
                made = {**scaling.model_dump(), "pairs": shape[0]}
                return {**file.config, "file": {**file.config["file"], "scaling": made}}
    raise header.wrong(f"tensor {FACTORS!r}: only Llama 3's scaled rotary positions are supported")


def _gguf(path: Path) -> Any:
    """The gguf package, which can dequantize."""
    try:
        import gguf
    except ImportError:
        raise CheckpointError(
            f"{path}: GGUF files need the gguf package: pip install 'glassformer[gguf]'"
        ) from None
    return gguf
