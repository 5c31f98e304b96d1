"""The header of a GGUF file, with checks: the gguf package's own reader has none.

    "GGUF" | version | number of tensors | number of fields | fields … | tensors … | padding | data
    field:   name | kind | value          tensor:  name | sizes, last one first | kind | offset

Every count is compared with the size of the file before anything is allocated. A value is decoded
on request, so that a header costs little more than its names.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.errors import CheckpointError, shown
from glassformer.tensor_files import MAX_TENSORS

VERSIONS = (2, 3)
SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
U32, U64, F32 = "<I", "<Q", "<f"
SIZE = struct.Struct(U64)
TEXT, LIST = 8, 9
# No real header is as large, and a malicious one is refused in less than a second.
MAX_HEADER, MAX_FIELDS, MAX_TEXTS, MAX_NAME, MAX_TEXT = (
    64 << 20, 10_000, 1 << 20, 1 << 10, 1 << 20,
)  # fmt: skip
MIN_FIELD, MIN_TENSOR = 13, 32  # bytes


@dataclass(frozen=True)
class Field:
    """The type and place of a field's value."""

    kind: int
    at: int
    of: int | None = None  # of a list: the type of its items
    count: int = 1


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as the header describes it."""

    shape: tuple[int, ...]  # rows first, as in torch
    kind: int
    offset: int  # from the start of the data


@dataclass
class Cursor:
    """A position in the file, which never leaves it: lengths are checked before they are used."""

    data: memoryview
    source: str
    at: int = 0

    def __post_init__(self) -> None:
        self.limit = min(len(self.data), MAX_HEADER)

    def wrong(self, why: str) -> CheckpointError:
        """An error that names the file."""
        return CheckpointError(f"{self.source}: {why}")

    def take(self, size: int, what: str) -> int:
        """Skip `size` bytes; return where they begin."""
        self.fits(size, what)
        self.at += size
        return self.at - size

    def skip_texts(self, count: int, what: str) -> int:
        """Skip `count` texts; return where they begin."""
        self.fits(8 * count, what)
        at = self.at
        for _ in range(count):  # there may be a million
            if at > self.limit - 8:
                self.fits(at + 8 - self.at, what)
            at += 8 + SIZE.unpack_from(self.data, at)[0]
        return self.take(at - self.at, what)

    def fits(self, size: int, what: str) -> None:
        """Raise unless `size` more bytes are left."""
        left = self.limit - self.at
        if size > left:
            raise self.wrong(
                f"{what} needs {size:,} bytes and {left:,} are left: the file is truncated"
            )

    def number(self, code: str, what: str) -> Any:
        at = self.take(struct.calcsize(code), what)
        return struct.unpack_from(code, self.data, at)[0]

    def text(self, what: str, most: int = MAX_TEXT) -> str:
        size = self.number(U64, what)
        at = self.take(size, what)
        if size > most:
            raise self.wrong(f"{what} has {size:,} bytes, more than {most:,}")
        try:
            return str(self.data[at : at + size], "utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(f"{what} is not UTF-8 text: {error}") from None

    def name(self, what: str, known: Collection[str]) -> str:
        name = self.text(what, MAX_NAME)
        if name in known:
            raise self.wrong(f"{what} is {shown(name)}, which is there twice")
        return name


class GgufHeader:
    """The fields and tensors that a GGUF file declares."""

    def __init__(self, data: memoryview, source: str) -> None:
        self.source = source
        self._cursor = cursor = Cursor(data, source)
        self._texts = 0  # in lists, so far
        self.fields: dict[str, Field] = {}
        self.tensors: dict[str, TensorInfo] = {}
        tensors, fields = self._counts()
        for number in range(fields):
            name = cursor.name(f"the name of field {number}", self.fields)
            self.fields[name] = self._field(f"field {shown(name)}")
        for number in range(tensors):
            name = cursor.name(f"the name of tensor {number}", self.tensors)
            self.tensors[name] = self._tensor(f"tensor {shown(name)}")
        align = self.value("general.alignment", 32)
        if type(align) is not int or align < 8 or align & (align - 1):
            raise cursor.wrong(
                f"general.alignment = {shown(align)}: write a power of two, such as 32"
            )
        self.alignment = align
        self.start = -(-cursor.at // align) * align  # of the data

    def value(self, name: str, default: Any = None) -> Any:
        """The value of a field: a number, a bool or a text."""
        field = self.fields.get(name)
        if field is None:
            return default
        if field.kind == LIST:
            raise self.wrong(f"{name} is a list: only one value is supported")
        return _value(self._at(field), field.kind, name)

    def items(self, name: str, *, texts: bool) -> list[Any]:
        """The value of a field that is a list of texts or of numbers."""
        field = self.fields.get(name)
        if field is None or field.of is None or (field.of == TEXT) != texts:
            raise self.wrong(f"{name}: a list of {'texts' if texts else 'numbers'} is needed")
        if field.count > MAX_TEXTS:
            raise self.wrong(f"{name} has {field.count:,} items, more than {MAX_TEXTS:,}")
        here = self._at(field)
        return [_value(here, field.of, name) for _ in range(field.count)]

    def wrong(self, why: str) -> CheckpointError:
        return self._cursor.wrong(why)

    def _at(self, field: Field) -> Cursor:
        return Cursor(self._cursor.data, self._cursor.source, field.at)

    def _counts(self) -> tuple[int, int]:
        cursor = self._cursor
        if bytes(cursor.data[:4]) != b"GGUF":
            raise cursor.wrong("it does not start with the letters GGUF: this is not a GGUF file")
        cursor.take(4, "GGUF")
        version = cursor.number(U32, "the version")
        if int.from_bytes(version.to_bytes(4, "big"), "little") in VERSIONS:
            raise cursor.wrong("its numbers are big-endian: convert it to little-endian first")
        if version not in VERSIONS:
            raise cursor.wrong(f"version = {version}: only 2 and 3 are supported")
        tensors = cursor.number(U64, "the number of tensors")
        fields = cursor.number(U64, "the number of fields")
        left = len(cursor.data) - cursor.at
        for what, count, most in (
            ("tensors", tensors, min(MAX_TENSORS, left // MIN_TENSOR)),
            ("fields", fields, min(MAX_FIELDS, left // MIN_FIELD)),
        ):
            if count > most:
                raise cursor.wrong(
                    f"the header declares {count:,} {what}: at most {most:,} are possible"
                )
        return tensors, fields

    def _field(self, what: str) -> Field:
        cursor = self._cursor
        kind = cursor.number(U32, what)
        if kind in SCALARS:
            return Field(kind, cursor.take(struct.calcsize(SCALARS[kind]), what))
        if kind == TEXT:
            return Field(kind, cursor.skip_texts(1, what))
        if kind != LIST:
            raise cursor.wrong(f"{what} has type {kind}, which is not known")
        of, count = cursor.number(U32, what), cursor.number(U64, what)
        if of in SCALARS:
            at = cursor.take(count * struct.calcsize(SCALARS[of]), what)
            return Field(kind, at, of, count)
        if of != TEXT:
            raise cursor.wrong(
                f"{what} is a list of type {of}: only numbers and texts are supported"
            )
        self._texts += count
        if self._texts > MAX_TEXTS:
            raise cursor.wrong(
                f"{what}: {count:,} texts, more than the {MAX_TEXTS:,} a file may have"
            )
        return Field(kind, cursor.skip_texts(count, what), of, count)

    def _tensor(self, what: str) -> TensorInfo:
        cursor = self._cursor
        dims = cursor.number(U32, what)
        if not 1 <= dims <= 4:
            raise cursor.wrong(f"{what} has {dims} dimensions: one to four are supported")
        sizes = [cursor.number(U64, what) for _ in range(dims)]
        if 0 in sizes:
            raise cursor.wrong(f"{what} has shape {sizes[::-1]}: it is empty")
        return TensorInfo(tuple(sizes[::-1]), cursor.number(U32, what), cursor.number(U64, what))


def _value(here: Cursor, kind: int, name: str) -> Any:
    if kind == TEXT:
        return here.text(name)
    value = here.number(SCALARS[kind], name)
    # 1e-05, as it was written, not 9.999999747378752e-06: in float32 they are equal.
    return float(str(np.float32(value))) if SCALARS[kind] == F32 else value
