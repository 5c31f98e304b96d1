"""Documents are encoded in several processes; the ids are the same as in one, in the same order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from glassformer.data.label_alignment import Document
from glassformer.data.prepare import ChunkEncoder, EncodedChunk
from glassformer.processes import in_processes

_encoder: ChunkEncoder


def encode_in_processes(
    chunks: Iterable[list[Document]], encoder: ChunkEncoder, workers: int
) -> Iterator[EncodedChunk]:
    """The ids of each chunk, in the order of the chunks."""
    return in_processes(_encode, chunks, workers, _begin, (encoder,), ordered=True)


def _begin(number: int, encoder: ChunkEncoder) -> None:
    global _encoder
    _encoder = encoder


def _encode(chunk: list[Document]) -> EncodedChunk:
    return _encoder(chunk)
