"""Documents are encoded in several processes; the ids are the same as in one, in the same order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from glassformer.data.label_alignment import Document
from glassformer.processes import in_processes

Encoded = TypeVar("Encoded")

_encoder: Callable[[list[Document]], Any]


def encode_in_processes(
    chunks: Iterable[list[Document]], encoder: Callable[[list[Document]], Encoded], workers: int
) -> Iterator[Encoded]:
    """What the encoder returns for each chunk, in the order of the chunks."""
    return in_processes(_encode, chunks, workers, _begin, (encoder,), ordered=True)


def _begin(number: int, encoder: Callable[[list[Document]], Any]) -> None:
    global _encoder
    _encoder = encoder


def _encode(chunk: list[Document]) -> Any:
    return _encoder(chunk)
