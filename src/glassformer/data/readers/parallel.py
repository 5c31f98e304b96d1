"""Parallel text: sentences and their translations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from glassformer.data.readers.files import PACKED, UTF8, find_files, read_lines, some, stop
from glassformer.errors import InputError

PathLike = str | os.PathLike[str]


def pairs(
    path: PathLike, other: PathLike | None = None, languages: tuple[str, str] | None = None,
    encoding: str = UTF8,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield each text and its translation.

    The input is two files; or one with a tab between text and translation (further columns are
    ignored); or, with `languages` such as ("en", "ru"), the stem `train` of train.en and train.ru,
    or their folder. Line n of one file is the translation of line n of the other: none is skipped.
    """
    if languages is not None:
        path, other = sides(Path(path), languages)
    if other is not None:
        return _parallel(Path(path), Path(other), encoding)
    if Path(path).is_dir():
        raise InputError(f"{path}: name the languages of its files, such as ('en', 'ru')")
    (file,) = find_files(path)
    return some(_tabbed(file, encoding), file, "pair")


def sides(path: Path, languages: tuple[str, ...]) -> tuple[Path, Path]:
    """The two files of a stem, or of a folder that holds one."""
    folder = path if path.is_dir() else path.parent
    files: list[dict[str, Path]] = [{}, {}]  # for each language, stem → file
    for file in sorted(folder.glob("*")):
        name = file.name.removesuffix(file.suffix) if file.suffix.lower() in PACKED else file.name
        for side, language in zip(files, languages, strict=True):
            if name.endswith(f".{language}"):
                side[name.removesuffix(f".{language}")] = file
    stems = sorted(files[0].keys() & files[1].keys())
    names = stems if path.is_dir() else [path.name]
    if len(names) != 1 or names[0] not in stems:
        both = " and ".join(f"NAME.{language}" for language in languages)
        available = ", ".join(str(folder / stem) for stem in stems) or "none is there"
        raise InputError(f"{path}: write the one NAME whose {both} you mean: {available}")
    return files[0][names[0]], files[1][names[0]]


def _parallel(one: Path, two: Path, encoding: str) -> Iterator[tuple[str, str]]:
    left = right = 0
    both = (read_lines(file, stop, encoding) for file in (one, two))
    for first, second in zip_longest(*both):
        left += first is not None
        right += second is not None
        if first and second:
            yield first[1], second[1]
    if left != right:
        raise InputError(
            f"{one} has {left:,} lines and {two} has {right:,}: line n of one must be the "
            "translation of line n of the other"
        )
    if not left:
        raise InputError(f"{one}: there is no pair in it")


def _tabbed(file: Path, encoding: str) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(file, stop, encoding):
        if not line:
            continue
        columns = line.split("\t", 2)
        if len(columns) < 2:
            raise InputError(f"{file}: line {number}: write a text, a tab and its translation")
        yield columns[0], columns[1]
