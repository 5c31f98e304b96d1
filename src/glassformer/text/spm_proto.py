"""SentencePiece's model files: a protocol buffer of pieces with scores, and a normalizer.

The file is untrusted: every length is checked before it is used, and unknown fields are skipped.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from glassformer.errors import CheckpointError

MAX_PIECE = 64  # characters; SentencePiece trains pieces of at most 16 by default
VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5  # how a field is written
Value = int | float | bytes


class PieceKind(IntEnum):
    """What a piece is."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # never found in a text, such as </s>
    USER_DEFINED = 4  # always found in a text, and never split
    UNUSED = 5
    BYTE = 6  # <0x41>: of characters that are no piece


@dataclass(frozen=True)
class Piece:
    text: str
    score: float
    kind: PieceKind


@dataclass(frozen=True)
class SentencePieceModel:
    pieces: list[Piece]
    merges: bool  # BPE, else Unigram
    charsmap: bytes  # of the normalizer; empty: characters stay as they are
    dummy_prefix: bool  # a space is added before the text
    one_space: bool  # spaces around the text are removed, and several become one

    def of(self, *kinds: PieceKind) -> list[Piece]:
        return [piece for piece in self.pieces if piece.kind in kinds]


# Fields of the messages, by number, with their default: ModelProto's are 1 pieces, 2 trainer_spec,
# 3 normalizer_spec, 5 denormalizer_spec.
PIECE: dict[str, tuple[int, Value]] = {"text": (1, b""), "score": (2, 0.0), "kind": (3, 1)}
TRAINER: dict[str, tuple[int, Value]] = {"model_type": (3, 1), "suffix": (24, 0)}
NORMALIZER: dict[str, tuple[int, Value]] = {
    "charsmap": (2, b""), "dummy_prefix": (3, 1), "one_space": (4, 1), "escape": (5, 1),
}  # fmt: skip
UNIGRAM, BPE = 1, 2


def read_model(data: bytes, name: str, most: int) -> SentencePieceModel:
    """The content of a SentencePiece model file, at most so many pieces; `name` is for messages."""
    pieces: list[Piece] = []
    specs: dict[int, bytes] = {2: b"", 3: b"", 5: b""}
    try:
        for number, value in _fields(data):
            if number == 1 and isinstance(value, bytes):
                pieces.append(_piece(value))
            elif number in specs and isinstance(value, bytes):
                specs[number] = value
            if len(pieces) > most:
                raise ValueError(f"more than {most:,} pieces")
        trainer, normalizer = _message(specs[2], TRAINER), _message(specs[3], NORMALIZER)
        back = _message(specs[5], NORMALIZER)
    except (ValueError, UnicodeDecodeError, struct.error, IndexError) as error:
        raise CheckpointError(f"{name}: not a SentencePiece model: {error}") from None
    model = SentencePieceModel(
        pieces,
        merges=trainer["model_type"] == BPE,
        charsmap=bytes(normalizer["charsmap"]),  # type: ignore[arg-type]
        dummy_prefix=bool(normalizer["dummy_prefix"]),
        one_space=bool(normalizer["one_space"]),
    )
    check_pieces(model, name)
    for present, what in (
        (trainer["model_type"] not in (UNIGRAM, BPE), "words or characters as pieces"),
        (trainer["suffix"], "spaces at the end of words"),
        (not normalizer["escape"], "spaces that are not escaped"),
        (back["charsmap"], "a denormalizer"),
        (model.of(PieceKind.UNUSED), "unused pieces"),
    ):
        if present:
            raise CheckpointError(f"{name}: a SentencePiece model with {what} is not supported")
    return model


def check_pieces(model: SentencePieceModel, name: str) -> None:
    """CheckpointError if pieces are there twice, or without a score, or none is the unknown one."""
    if len(model.of(PieceKind.UNKNOWN)) != 1:
        raise CheckpointError(f"{name}: not a SentencePiece model: it needs one unknown piece")
    seen: set[str] = set()
    for piece in model.pieces:
        if piece.text in seen or not math.isfinite(piece.score):
            raise CheckpointError(
                f"{name}: piece {piece.text!r:.40} with score {piece.score}: each piece is there "
                "once, with a number as its score"
            )
        seen.add(piece.text)


def _piece(data: bytes) -> Piece:
    fields = _message(data, PIECE)
    text, score, kind = fields["text"], fields["score"], fields["kind"]
    if not isinstance(text, bytes) or not isinstance(score, float) or not isinstance(kind, int):
        raise ValueError("a piece has fields of other types")
    piece = Piece(text.decode("utf-8"), score, PieceKind(kind))
    if not 0 < len(piece.text) <= MAX_PIECE:
        raise ValueError(f"a piece of {len(piece.text):,} characters, not of 1 to {MAX_PIECE}")
    return piece


def _message(data: bytes, names: dict[str, tuple[int, Value]]) -> dict[str, Value]:
    """These fields of a message, or their defaults."""
    fields = dict(_fields(data))
    values = {name: fields.get(number, usual) for name, (number, usual) in names.items()}
    for name, (_, usual) in names.items():
        if type(values[name]) is not type(usual):
            raise ValueError(f"field {name} has another type")
    return values


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """The number and value of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, how = tag >> 3, tag & 7
        value: Value
        if how == VARINT:
            value, at = _varint(data, at)
        elif how == BYTES:
            size, at = _varint(data, at)
            if size > len(data) - at:
                raise ValueError(f"a field of {size:,} bytes where {len(data) - at:,} are left")
            value, at = data[at : at + size], at + size
        elif how == FOUR_BYTES:
            (value,), at = struct.unpack_from("<f", data, at), at + 4
        elif how == EIGHT_BYTES:
            (value,), at = struct.unpack_from("<d", data, at), at + 8
        else:
            raise ValueError(f"a field of the unknown type {how}")
        yield number, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at + shift // 7]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + shift // 7 + 1
    raise ValueError("a number of more than ten bytes")
