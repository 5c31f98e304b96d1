"""CoNLL files: sentences with a tag for each word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.readers.files import (
    UTF8,
    Bad,
    each_file,
    find_files,
    kind,
    read_lines,
    some,
    stop,
)
from glassformer.errors import ConfigError, InputError, counted

CONLL = ("word", "pos", "chunk", "ner")  # CoNLL-2003
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

MOST_LINE = 2**16  # characters of a word and its tags

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence, and a tag for each of its words."""

    words: list[str]
    tags: list[str]
    source: str = field(default="", compare=False)  # its file; `lines` are those of its words
    lines: list[int] = field(default_factory=list, compare=False, repr=False)


def tagged(
    path: PathLike, column: int | str | None = None, bad: Bad = stop, encoding: str = UTF8
) -> Iterator[TaggedSentence]:
    """Yield the sentences of CoNLL files: one word per line, columns separated by tabs or spaces.

    The tags are in `column`: its number from 0, negative from the end, or its name (`pos`, `chunk`,
    `ner`; in .conllu files `upos`, `xpos`, `deprel` …). The default is the last one, or `upos`.
    """

    def read(file: Path) -> Iterator[TaggedSentence]:
        return some(_sentences(file, column, bad, encoding), file, "sentence")

    return each_file(find_files(path), read, bad)


def _sentences(
    file: Path, column: int | str | None, bad: Bad, encoding: str
) -> Iterator[TaggedSentence]:
    treebank = kind(file) == ".conllu"
    names, word, default = (CONLLU, 1, 3) if treebank else (CONLL, 0, -1)
    tag = default if column is None else _column_index(column, names)
    min_width = max(2, tag + 1, -tag)
    width = max(len(CONLLU), min_width) if treebank else 0  # 0: as many as the first line has
    sentence = TaggedSentence([], [], str(file))
    invalid = False  # one bad line invalidates its sentence

    def bad_line(error: InputError) -> None:
        nonlocal invalid
        invalid = True
        bad(error)

    for number, line in read_lines(file, bad_line, encoding):
        if len(line) > MOST_LINE:
            bad_line(InputError(f"{file}: line {number}: more than {MOST_LINE:,} characters"))
            continue
        columns = _split(line)
        if not columns or columns[0] == "-DOCSTART-":
            if sentence.words and not invalid:
                yield sentence
            sentence, invalid = TaggedSentence([], [], str(file)), False
        elif treebank and re.match(r"#|\d+[-.]\d", line):
            continue  # a comment, a multiword token (3-4) or an empty node (8.1)
        else:
            width = width or max(len(columns), min_width)
            if invalid:
                continue
            if len(columns) != width or not columns[word]:
                invalid = True
                what = (
                    f" has {counted(len(columns), 'columns')}: write {width}, a word and its tags"
                )
                if len(columns) == width:
                    what = ": the word is empty"
                bad(InputError(f"{file}: line {number}{what}"))
                continue
            sentence.words.append(columns[word])
            sentence.tags.append(columns[tag])
            sentence.lines.append(number)
    if sentence.words and not invalid:
        yield sentence


def _split(line: str) -> list[str]:
    if not line.strip():
        return []
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


def _column_index(column: int | str, names: tuple[str, ...]) -> int:
    if isinstance(column, int):
        return column
    if column.lower() not in names:
        raise ConfigError(f"column = {column!r}: write a number, or one of {', '.join(names)}")
    return names.index(column.lower())
