"""The front of a GGUF file, walked with care: the gguf package's own reader believes what it reads.

    "GGUF" | version | number of tensors | number of fields | fields … | tensors … | padding | data
    field:   name | kind | value          tensor:  name | sizes, last one first | kind | offset

Every count is compared with what the file can hold before anything is made of it. A value is
decoded when it is asked for, so that a header costs little more than its names.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.checkpoint.header import MOST_TENSORS
from glassformer.errors import CheckpointError, shown

VERSIONS = (2, 3)
SCALARS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
U32, U64, F32 = "<I", "<Q", "<f"
SIZE = struct.Struct(U64)
TEXT, LIST = 8, 9
# No real header is as large, and a hostile one is refused in less than a second.
MOST_HEADER, MOST_FIELDS, MOST_TEXTS, MOST_NAME, MOST_TEXT = (
    64 << 20, 10_000, 1 << 20, 1 << 10, 1 << 20,
)  # fmt: skip
LEAST_FIELD, LEAST_TENSOR = 13, 32  # bytes


@dataclass(frozen=True)
class Field:
    """Where a value stands."""

    kind: int
    at: int
    of: int | None = None  # what it is a list of
    count: int = 1


@dataclass(frozen=True)
class Info:
    """What the header says of a tensor."""

    shape: tuple[int, ...]  # rows first, as everybody else writes it
    kind: int
    offset: int  # from the start of the data


@dataclass
class Cursor:
    """A place in the file. It never leaves it: a length is checked before it is believed."""

    data: memoryview
    source: str
    at: int = 0

    def __post_init__(self) -> None:
        self.limit = min(len(self.data), MOST_HEADER)

    def wrong(self, why: str) -> CheckpointError:
        return CheckpointError(f"{self.source}: {why}")

    def take(self, size: int, what: str) -> int:
        """Step over so many bytes; where they begin."""
        self.fits(size, what)
        self.at += size
        return self.at - size

    def skip_texts(self, count: int, what: str) -> int:
        """Step over so many texts; where they begin."""
        self.fits(8 * count, what)
        at = self.at
        for _ in range(count):  # there may be a million
            if at > self.limit - 8:
                self.fits(at + 8 - self.at, what)
            at += 8 + SIZE.unpack_from(self.data, at)[0]
        return self.take(at - self.at, what)

    def fits(self, size: int, what: str) -> None:
        left = self.limit - self.at
        if size > left:
            raise self.wrong(
                f"{what} needs {size:,} bytes and {left:,} are left: the file is cut off or damaged"
            )

    def number(self, code: str, what: str) -> Any:
        at = self.take(struct.calcsize(code), what)
        return struct.unpack_from(code, self.data, at)[0]

    def text(self, what: str, most: int = MOST_TEXT) -> str:
        size = self.number(U64, what)
        at = self.take(size, what)
        if size > most:
            raise self.wrong(f"{what} has {size:,} bytes, more than {most:,}")
        try:
            return str(self.data[at : at + size], "utf-8")
        except UnicodeDecodeError as error:
            raise self.wrong(f"{what} is not UTF-8 text: {error}") from None

    def name(self, what: str, known: Collection[str]) -> str:
        name = self.text(what, MOST_NAME)
        if name in known:
            raise self.wrong(f"{what} is {shown(name)}, which is there already")
        return name


class GgufHeader:
    def __init__(self, data: memoryview, source: str) -> None:
        self.source = source
        self._walk = walk = Cursor(data, source)
        self._texts = 0  # in lists, so far
        self.fields: dict[str, Field] = {}
        self.tensors: dict[str, Info] = {}
        tensors, fields = self._counts()
        for number in range(fields):
            name = walk.name(f"the name of field {number}", self.fields)
            self.fields[name] = self._field(f"field {shown(name)}")
        for number in range(tensors):
            name = walk.name(f"the name of tensor {number}", self.tensors)
            self.tensors[name] = self._tensor(f"tensor {shown(name)}")
        align = self.value("general.alignment", 32)
        if type(align) is not int or align < 8 or align & (align - 1):
            raise walk.wrong(
                f"general.alignment = {shown(align)}: write a power of two, such as 32"
            )
        self.alignment = align
        self.start = -(-walk.at // align) * align  # of the data

    def value(self, name: str, default: Any = None) -> Any:
        """What a field says: a number, True or False, or a text."""
        field = self.fields.get(name)
        if field is None:
            return default
        if field.kind == LIST:
            raise self.wrong(f"{name} is a list: only one value is supported")
        return _value(self._cursor(field), field.kind, name)

    def items(self, name: str, *, texts: bool) -> list[Any]:
        """A list of texts, or of numbers."""
        field = self.fields.get(name)
        if field is None or field.of is None or (field.of == TEXT) != texts:
            raise self.wrong(f"{name}: a list of {'texts' if texts else 'numbers'} is needed")
        if field.count > MOST_TEXTS:
            raise self.wrong(f"{name} has {field.count:,} items, more than {MOST_TEXTS:,}")
        here = self._cursor(field)
        return [_value(here, field.of, name) for _ in range(field.count)]

    def wrong(self, why: str) -> CheckpointError:
        return self._walk.wrong(why)

    def _cursor(self, field: Field) -> Cursor:
        return Cursor(self._walk.data, self._walk.source, field.at)

    def _counts(self) -> tuple[int, int]:
        walk = self._walk
        if bytes(walk.data[:4]) != b"GGUF":
            raise walk.wrong("it does not begin with the letters GGUF: this is no GGUF file")
        walk.take(4, "GGUF")
        version = walk.number(U32, "the version")
        if int.from_bytes(version.to_bytes(4, "big"), "little") in VERSIONS:
            raise walk.wrong("its numbers are big-endian: convert it to little-endian first")
        if version not in VERSIONS:
            raise walk.wrong(f"version = {version}: only 2 and 3 are known")
        tensors = walk.number(U64, "the number of tensors")
        fields = walk.number(U64, "the number of fields")
        left = len(walk.data) - walk.at
        for what, count, most in (
            ("tensors", tensors, min(MOST_TENSORS, left // LEAST_TENSOR)),
            ("fields", fields, min(MOST_FIELDS, left // LEAST_FIELD)),
        ):
            if count > most:
                raise walk.wrong(f"the header counts {count:,} {what}: there can be {most:,}")
        return tensors, fields

    def _field(self, what: str) -> Field:
        walk = self._walk
        kind = walk.number(U32, what)
        if kind in SCALARS:
            return Field(kind, walk.take(struct.calcsize(SCALARS[kind]), what))
        if kind == TEXT:
            return Field(kind, walk.skip_texts(1, what))
        if kind != LIST:
            raise walk.wrong(f"{what} is of kind {kind}, which is not known")
        of, count = walk.number(U32, what), walk.number(U64, what)
        if of in SCALARS:
            at = walk.take(count * struct.calcsize(SCALARS[of]), what)
            return Field(kind, at, of, count)
        if of != TEXT:
            raise walk.wrong(f"{what} is a list of kind {of}: numbers and texts are known")
        self._texts += count
        if self._texts > MOST_TEXTS:
            raise walk.wrong(f"{what}: {count:,} texts, and a file may have {MOST_TEXTS:,}")
        return Field(kind, walk.skip_texts(count, what), of, count)

    def _tensor(self, what: str) -> Info:
        walk = self._walk
        dims = walk.number(U32, what)
        if not 1 <= dims <= 4:
            raise walk.wrong(f"{what} has {dims} dimensions: one to four are known")
        sizes = [walk.number(U64, what) for _ in range(dims)]
        if 0 in sizes:
            raise walk.wrong(f"{what} has shape {sizes[::-1]}: it is empty")
        return Info(tuple(sizes[::-1]), walk.number(U32, what), walk.number(U64, what))


def _value(here: Cursor, kind: int, name: str) -> Any:
    if kind == TEXT:
        return here.text(name)
    value = here.number(SCALARS[kind], name)
    # 1e-05, which somebody wrote, and not 9.999999747378752e-06: in float32 they are the same.
    return float(str(np.float32(value))) if SCALARS[kind] == F32 else value
