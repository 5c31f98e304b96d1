"""Safetensors files: the header is checked to the byte before the library maps a tensor."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError, safe_open

from glassformer.errors import CheckpointError, shown
from glassformer.strictjson import parse

BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
    "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}  # fmt: skip
FIELDS = {"dtype", "shape", "data_offsets"}
MAX_HEADER, MAX_TENSORS, MAX_RANK, MAX_METADATA = 8 << 20, 20_000, 8, 1 << 20
MAX_SIZES = 1 << 48  # the product of a shape without its zeros: other libraries multiply it, too


@dataclass(frozen=True)
class Header:
    shapes: dict[str, tuple[int, ...]]
    metadata: dict[str, str]
    size: int  # bytes of all tensors


@contextmanager
def open_tensors(path: str | os.PathLike[str], framework: str) -> Iterator[Any]:
    """The library's reader of a file whose header is correct; a CheckpointError names what is not.

    `framework` is that of the tensors: "pt" for torch, "np" for numpy.
    """
    if not Path(path).is_file():  # opening a FIFO would wait for a writer
        raise CheckpointError(f"{path}: there is no such file")
    try:
        with Path(path).open("rb") as file:
            read_header(file, os.fstat(file.fileno()).st_size, str(path))
        with safe_open(path, framework) as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a complete safetensors file: {error}") from None


def read_header(file: BinaryIO, size: int, source: str) -> Header:
    """Read and check the header of an open file of `size` bytes.

    The file is 8 bytes of length, the header, and the tensors end to end.
    """
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or length > size - 8:
        raise CheckpointError(
            f"{source}: not a complete safetensors file: its header has {length:,} bytes, "
            f"the file {size:,}"
        )
    if length > MAX_HEADER:
        raise CheckpointError(
            f"{source}: a header of {length:,} bytes, more than the limit of {MAX_HEADER:,}"
        )
    entries = parse(file.read(length), f"{source}: header")
    metadata = _metadata(entries.pop("__metadata__", {}), source)
    if len(entries) > MAX_TENSORS:
        raise CheckpointError(f"{source}: {len(entries):,} tensors, more than {MAX_TENSORS:,}")
    available = size - 8 - length
    spans = sorted(
        (*_span(entry, name, available, source), name) for name, entry in entries.items()
    )
    expected = 0
    for begin, end, name in spans:
        if begin != expected:
            raise CheckpointError(
                f"{source}: tensor {shown(name)}: data_offsets begin at {begin:,}, and the tensor "
                f"before it ends at {expected:,}"
            )
        expected = end
    if expected != available:
        last = shown(spans[-1][2]) if spans else "none"
        raise CheckpointError(
            f"{source}: not a complete safetensors file: the last tensor, {last}, ends at byte "
            f"{expected:,} of the data, which has {available:,}"
        )
    return Header(
        {name: tuple(entry["shape"]) for name, entry in entries.items()}, metadata, expected
    )


def _span(entry: Any, name: str, available: int, source: str) -> tuple[int, int]:
    """Where a tensor begins and ends, checked against its shape and dtype."""
    about = f"{source}: tensor {shown(name)}"
    if not isinstance(entry, dict) or entry.keys() != FIELDS:
        raise CheckpointError(f"{about}: {shown(entry)}: write dtype, shape and data_offsets")
    dtype, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BYTES:
        raise CheckpointError(
            f"{about}: dtype = {shown(dtype)} is not known: write one of {', '.join(BYTES)}"
        )
    if not _naturals(shape) or len(shape) > MAX_RANK:
        raise CheckpointError(
            f"{about}: shape = {shown(shape)}: write at most {MAX_RANK} whole numbers"
        )
    if math.prod(n for n in shape if n) > MAX_SIZES:
        raise CheckpointError(
            f"{about}: shape = {shown(shape)}: its sizes multiply to more than {MAX_SIZES:,}"
        )
    if not _naturals(span) or len(span) != 2 or span[0] > span[1]:
        raise CheckpointError(f"{about}: data_offsets = {shown(span)}: write where it begins, ends")
    needed = math.prod(shape) * BYTES[dtype]
    if needed != span[1] - span[0]:
        raise CheckpointError(
            f"{about}: shape = {shown(shape)} of {dtype} is {needed:,} bytes, and its data_offsets "
            f"span {span[1] - span[0]:,}"
        )
    if span[1] > available:
        raise CheckpointError(
            f"{about}: not a complete safetensors file: data_offsets end at {span[1]:,}, the data "
            f"at {available:,}"
        )
    return span[0], span[1]


def _metadata(metadata: Any, source: str) -> dict[str, str]:
    if not isinstance(metadata, dict) or {*map(type, metadata.values())} - {str}:
        raise CheckpointError(
            f"{source}: __metadata__ = {shown(metadata)}: write text for each key"
        )
    size = sum(len(key) + len(value) for key, value in metadata.items())
    if size > MAX_METADATA:
        raise CheckpointError(
            f"{source}: __metadata__ has {size:,} characters, more than {MAX_METADATA:,}"
        )
    return metadata


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)
