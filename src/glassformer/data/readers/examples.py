"""Labelled texts out of a table, and the names of their classes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from glassformer.data.readers.files import Bad, stop
from glassformer.data.readers.folders import has_label_folders, labelled_files
from glassformer.data.readers.tables import located, sources
from glassformer.errors import ConfigError, InputError, shown

# What columns are called, where nobody says which ones to read.
PAIRS = (
    ("sentence1", "sentence2"), ("text1", "text2"), ("premise", "hypothesis"),
    ("question1", "question2"), ("question", "sentence"), ("query", "passage"),
)  # fmt: skip
TEXTS = ("sentence", "text", "review", "question", "content", "document")
LABELS = ("label", "labels", "score", "class", "category", "target")
POINT = re.compile(r"[+-]?\d*\.\d+(e[+-]?\d+)?", re.IGNORECASE)
NO_ANSWER = -100.0  # in a batch it stands where no answer is wanted


@dataclass(frozen=True)
class Example:
    """One text or two, and what is to be told of them, as the file has it."""

    texts: tuple[str, ...]
    label: str | None
    where: str  # file and line
    place: float | None = None  # of a file in the folder of its label: from 0 to 1, by its name


@dataclass(frozen=True)
class TableColumns:
    """Which columns to read, and how."""

    text: str
    second: str | None = None
    label: str | None = None
    header: tuple[str, ...] | None = None  # names of the columns, if the file does not say them
    separator: str | None = None  # of a file that is no .tsv, .csv, .jsonl or .parquet
    label_until: str | None = None  # a label ends before this: DESC of DESC:manner
    label_separator: str | None = None  # between several labels of a text, which may have none
    folders: bool = False  # there are no columns: LABEL/FILE

    def __str__(self) -> str:
        if self.folders:
            return "there is a folder for each label"
        parts = {"text": self.text, "text_pair": self.second, "label": self.label}
        columns = ", ".join(f"{name} = {value!r}" for name, value in parts.items() if value)
        return f"the columns look like {columns}"


FOLDERS = TableColumns("text", label="label", folders=True)


def guessed(path: Path, table: TableColumns, *, labelled: bool = True) -> TableColumns:
    """What the table does not name is taken from columns that look like texts and labels."""
    if has_label_folders(path):
        return FOLDERS
    first = sources(path)[0]
    # A bad row has no names to tell, and is told, or skipped, when the rows themselves are read.
    _, row = next(located(first, (), table.header, table.separator, bad=lambda error: None))
    names = list(row)
    label = table.label or next((name for name in LABELS if name in names), None)
    text, second = table.text, table.second
    if not text:
        rest = [name for name in names if name not in (label, second)]
        alone = rest[0] if len(rest) == 1 else ""
        text = next((name for name in TEXTS if name in names), alone)
        pairs = (pair for pair in PAIRS if not second and set(pair) <= set(names))
        text, second = next(pairs, (text, second))
    if not text or (label is None and labelled):
        what = "label" if text else "text"
        raise ConfigError(
            f"{path}: which column is the {what}? It has {', '.join(map(repr, names))}: write "
            f"data.{what}"
        )
    return replace(table, text=text, second=second, label=label)


def examples(path: Path, table: TableColumns, bad: Bad = stop) -> Iterator[Example]:
    """Rows with all their texts; of one that lacks something, `bad` is told where and what."""
    if table.folders:
        for each in labelled_files(path, bad):
            yield Example((each.text,), each.label, each.where, each.place)
        return
    needed = [name for name in (table.text, table.second, table.label) if name is not None]
    for source in sources(path):
        for where, row in located(source, needed, table.header, table.separator, bad):
            texts = [row[name] for name in needed if name != table.label]
            wrong = next((i for i, text in enumerate(texts) if not _is_text(text)), None)
            label = None if table.label is None else row[table.label]
            if wrong is not None:
                bad(_wrong(where, needed[wrong], texts[wrong], "a text"))
            elif table.label is not None and not _is_label(label, table):
                bad(_wrong(where, table.label, label, "a label"))
            else:
                yield Example(tuple(texts), _spelt(label, table), where)


def find_labels(found: Iterable[str]) -> tuple[str, ...]:
    """Each once: numbers by size, then words by the alphabet."""
    return tuple(sorted(set(found), key=_rank))


def labels_in(label: str, separator: str | None) -> list[str]:
    """All labels of a text: one, unless several are separated."""
    if separator is None:
        return [label]
    return list(dict.fromkeys(name for part in label.split(separator) if (name := part.strip())))


def are_values(labels: Sequence[str]) -> bool:
    """Numbers with a point are values to come near to, all other labels are names of classes."""
    return all(POINT.fullmatch(label) for label in labels)


def number_of(label: str, labels: Sequence[str], where: str, name: str) -> int:
    if label not in labels:
        known = ", ".join(labels[:10]) + (" …" if len(labels) > 10 else "")
        raise InputError(
            f"{where}: {name} = {shown(label)} is none of the labels of the training data: {known}"
        )
    return labels.index(label)


def value_of(label: str, where: str, name: str) -> float:
    try:
        value = float(label)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value == NO_ANSWER:
        raise _wrong(where, name, label, "a number" if value != NO_ANSWER else "another number")
    return value


def _wrong(where: str, name: str, value: object, write: str) -> InputError:
    return InputError(f"{where}: {name} = {shown(value)}: write {write}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_label(value: object, table: TableColumns) -> bool:
    none = table.label_separator is not None and value == ""
    return none or isinstance(value, int | float) or _is_text(value)


def _spelt(label: object, table: TableColumns) -> str | None:
    if table.label is None:
        return None
    text = str(label).strip()
    return text.partition(table.label_until)[0] if table.label_until else text


def _rank(label: str) -> tuple[bool, float, str]:
    number = float(label) if re.fullmatch(r"[+-]?\d+(\.\d+)?", label) else None
    return number is None, number or 0.0, label
