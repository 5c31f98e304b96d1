"""CoNLL files: sentences with a tag for each word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from glassformer.data.readers.files import Bad, find_files, kind, read_lines, some, stop
from glassformer.errors import ConfigError, InputError

CONLL = ("word", "pos", "chunk", "ner")  # CoNLL-2003
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence, and a tag for each of its words."""

    words: list[str]
    tags: list[str]
    source: str = field(default="", compare=False)  # its file, and the line of each word
    lines: list[int] = field(default_factory=list, compare=False, repr=False)


def tagged(
    path: PathLike, column: int | str | None = None, bad: Bad = stop
) -> Iterator[TaggedSentence]:
    """Sentences of CoNLL files: a word a line, columns apart by tabs or spaces.

    The tags are in `column`: its number from 0, negative from the end, or its name (`pos`, `chunk`,
    `ner`; in .conllu files `upos`, `xpos`, `deprel` …). If not given: the last one, or `upos`.
    """
    for file in find_files(path):
        yield from some(_sentences(file, column, bad), file, "sentence")


def _sentences(file: Path, column: int | str | None, bad: Bad) -> Iterator[TaggedSentence]:
    treebank = kind(file) == ".conllu"
    names, word, usual = (CONLLU, 1, 3) if treebank else (CONLL, 0, -1)
    tag = usual if column is None else _place(column, names)
    least = max(2, tag + 1, -tag)
    width = max(len(CONLLU), least) if treebank else 0  # 0: as many columns as the first line has
    held = TaggedSentence([], [], str(file))
    wrong = False  # one bad line spoils its sentence
    for number, line in read_lines(file):
        columns = _split(line)
        if not columns or columns[0] == "-DOCSTART-":
            if held.words and not wrong:
                yield held
            held, wrong = TaggedSentence([], [], str(file)), False
        elif treebank and re.match(r"#|\d+[-.]\d", line):
            continue  # a comment, a multiword token (3-4) or an empty node (8.1)
        else:
            width = width or max(len(columns), least)
            if wrong:
                continue
            if len(columns) != width or not columns[word]:
                wrong = True
                what = f" has {len(columns)} columns: write {width}"
                if len(columns) == width:
                    what = ": the word is empty"
                bad(InputError(f"{file}: line {number}{what}"))
                continue
            held.words.append(columns[word])
            held.tags.append(columns[tag])
            held.lines.append(number)
    if held.words and not wrong:
        yield held


def _split(line: str) -> list[str]:
    if not line.strip():
        return []
    return line.split("\t") if "\t" in line else [part for part in line.split(" ") if part]


def _place(column: int | str, names: tuple[str, ...]) -> int:
    if isinstance(column, int):
        return column
    if column.lower() not in names:
        raise ConfigError(f"column = {column!r}: write a number, or one of {', '.join(names)}")
    return names.index(column.lower())
