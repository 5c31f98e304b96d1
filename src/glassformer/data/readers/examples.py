"""Labelled texts from a table, and the names of their classes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.readers.files import UTF8, Bad, BadRows, each_file, stop
from glassformer.data.readers.folders import has_label_folders, labelled_files
from glassformer.data.readers.tables import Located, Row, located, sources
from glassformer.errors import ConfigError, InputError, shown

# Usual names of columns, for recipes that do not name theirs.
PAIRS = (
    ("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"),
    ("question1", "question2"), ("question", "sentence"), ("query", "passage"),
)  # fmt: skip
TEXTS = ("sentence", "text", "review", "question", "content", "document")
LABELS = ("label", "labels", "score", "class", "category", "target")
DECIMAL = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
NO_ANSWER = -100.0  # in a batch it marks positions without a label


@dataclass(frozen=True)
class Example:
    """One text or two, and their label, as written in the file."""

    texts: tuple[str, ...]
    label: str | None
    where: str  # file and line
    place: float | None = None  # rank of a file in the folder of its label, by name: from 0 to 1


@dataclass(frozen=True)
class TableColumns:
    """Which columns to read, and how."""

    text: str
    second: str | None = None
    label: str | None = None
    header: tuple[str, ...] | None = None  # names of the columns, if the file has no header
    separator: str | None = None  # of columns; found in the header line of .csv files
    label_prefix_separator: str | None = None  # a label ends before this: DESC in DESC:manner
    label_separator: str | None = None  # between several labels of a text, which may have none
    folders: bool = False  # there are no columns: LABEL/FILE
    encoding: str = UTF8

    def __str__(self) -> str:
        if self.folders:
            return "there is a folder for each label"
        parts = {"text": self.text, "text_pair": self.second, "label": self.label}
        columns = ", ".join(f"{name} = {value!r}" for name, value in parts.items() if value)
        return f"the columns look like {columns}"


FOLDERS = TableColumns("text", label="label", folders=True)


def guessed(path: Path, table: TableColumns, *, labelled: bool = True) -> TableColumns:
    """The columns that `table` does not name, guessed from the usual names of texts and labels."""
    if has_label_folders(path):
        return replace(FOLDERS, encoding=table.encoding)
    names = list(_first_row(path, table))
    cased = {name.lower(): name for name in reversed(names)}
    label = table.label or next((cased[name] for name in LABELS if name in cased), None)
    text, second = table.text, table.second
    if not text:
        others = [name for name in names if name not in (label, second)]
        only = others[0] if len(others) == 1 else ""
        text = next((cased[name] for name in TEXTS if name in cased), only)
        pairs = ((cased[a], cased[b]) for a, b in PAIRS if not second and {a, b} <= set(cased))
        text, second = next(pairs, (text, second))
    if not text or (label is None and labelled):
        what = "label" if text else "text"
        raise ConfigError(
            f"{path}: which column is the {what}? It has {', '.join(map(repr, names))}: write "
            f"data.{what}"
        )
    return replace(table, text=text, second=second, label=label)


def examples(path: Path, table: TableColumns, bad: Bad = stop) -> Iterator[Example]:
    """Yield the rows that are complete; `bad` is called with an error for each of the others."""
    if table.folders:
        for each in labelled_files(path, bad, table.encoding):
            yield Example((each.text,), each.label, each.where, each.place)
        return
    needed = [name for name in (table.text, table.second, table.label) if name is not None]
    for where, row in _rows(path, needed, table, bad):
        texts = [row[name] for name in needed if name != table.label]
        invalid = next((i for i, text in enumerate(texts) if not _is_text(text)), None)
        label = None if table.label is None else row[table.label]
        if invalid is not None:
            bad(_error(where, needed[invalid], texts[invalid], "a text"))
        elif table.label is not None and not _is_label(label, table):
            bad(_error(where, table.label, label, "a label"))
        else:
            yield Example(tuple(texts), _label_name(label, table), where)


def _rows(path: Path, needed: Sequence[str], table: TableColumns, bad: Bad) -> Iterator[Located]:
    def read(file: Path) -> Iterator[Located]:
        return located(file, needed, table.header, table.separator, bad, table.encoding)

    return each_file(sources(path), read, bad)


def _first_row(path: Path, table: TableColumns) -> Row:
    """A bad row, or file, has no column names; it is reported, or skipped, when it is read."""
    with BadRows(path, skip=True, log=lambda line: None) as bad:
        for _, row in _rows(path, (), table, bad):
            return row
    raise InputError(f"{path}: there is no row in it")


def find_labels(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels: numbers in numeric order, then names in alphabetical order."""
    return tuple(sorted(set(labels), key=_sort_key))


def labels_in(label: str, separator: str | None) -> list[str]:
    """All labels of a text: one, unless a `separator` divides several."""
    if separator is None:
        return [label]
    return list(dict.fromkeys(name for part in label.split(separator) if (name := part.strip())))


def are_values(labels: Sequence[str]) -> bool:
    """Whether the labels look like regression targets: decimal numbers, and not all of them whole,
    as the classes 0.0 and 1.0 are that pandas writes. A NaN among them is one that is missing."""
    known = [label for label in labels if not NOT_FINITE.fullmatch(label)]
    decimals = bool(known) and all(DECIMAL.fullmatch(label) for label in known)
    return decimals and not all(float(label).is_integer() for label in known)


def number_of(label: str, labels: Sequence[str], where: str, name: str) -> int:
    """The index of a label; `where` and `name` (of the column) are for the error."""
    if label not in labels:
        known = ", ".join(labels[:10]) + (" …" if len(labels) > 10 else "")
        raise InputError(
            f"{where}: {name} = {shown(label)} is none of the labels of the training data: {known}"
        )
    return labels.index(label)


def value_of(label: str, where: str, name: str) -> float:
    """The regression target of a label; `where` and `name` (of the column) are for the error."""
    try:
        value = float(label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value == NO_ANSWER:
        raise _error(where, name, label, "a number" if value != NO_ANSWER else "another number")
    return value


def _error(where: str, name: str, value: object, expected: str) -> InputError:
    if isinstance(value, str) and not value.strip():
        return InputError(f"{where}: {name} is empty: write {expected}")
    return InputError(f"{where}: {name} = {shown(value)}: write {expected}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_label(value: object, table: TableColumns) -> bool:
    none = table.label_separator is not None and value == ""
    return none or isinstance(value, int | float) or _is_text(value)


def _label_name(label: object, table: TableColumns) -> str | None:
    if table.label is None:
        return None
    text = str(label).strip()
    return text.partition(table.label_prefix_separator)[0] if table.label_prefix_separator else text


def _sort_key(label: str) -> tuple[bool, float, str]:
    number = float(label) if re.fullmatch(r"[+-]?\d+(\.\d+)?", label) else None
    return number is None, number or 0.0, label
