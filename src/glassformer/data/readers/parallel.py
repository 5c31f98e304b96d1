"""Parallel text: sentences and their translations."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import repeat, zip_longest
from pathlib import Path

from glassformer.data.readers.files import PACKED, UTF8, Bad, find_files, read_lines, some, stop
from glassformer.errors import InputError

PathLike = str | os.PathLike[str]
END = object()  # after the last line of the shorter file


def pairs(
    path: PathLike, other: PathLike | None = None, languages: tuple[str, str] | None = None,
    bad: Bad = stop, encoding: str = UTF8,
) -> Iterator[tuple[str, str]]:  # fmt: skip
    """Yield each text and its translation.

    The input is two files; or one with a tab between text and translation (further columns are
    ignored); or, with `languages` such as ("en", "ru"), the stem `train` of train.en and train.ru,
    or their folder. Line n of one file is the translation of line n of the other: none is skipped,
    and a bad line takes its translation along.
    """
    if languages is not None:
        path, other = sides(Path(path), languages)
    if other is not None:
        return _parallel(Path(path), Path(other), bad, encoding)
    if Path(path).is_dir():
        raise InputError(f"{path}: name the languages of its files, such as ('en', 'ru')")
    (file,) = find_files(path)
    return some(_tabbed(file, bad, encoding), file, "pair")


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


def _parallel(one: Path, two: Path, bad: Bad, encoding: str) -> Iterator[tuple[str, str]]:
    left = right = 0
    both = (_every_line(file, bad, encoding) for file in (one, two))
    for first, second in zip_longest(*both, fillvalue=END):
        left += first is not END
        right += second is not END
        if isinstance(first, str) and isinstance(second, str):
            yield first, second
    if left != right:
        raise InputError(
            f"{one} has {left:,} lines and {two} has {right:,}: line n of one must be the "
            "translation of line n of the other"
        )
    if not left:
        raise InputError(f"{one}: there is no pair in it")


def _every_line(file: Path, bad: Bad, encoding: str) -> Iterator[str | None]:
    """The lines, with None in place of a bad one."""
    gap = 0

    def count(error: InputError) -> None:
        nonlocal gap
        gap += 1
        bad(error)

    for _, line in read_lines(file, count, encoding):
        yield from repeat(None, gap)
        gap = 0
        yield line
    yield from repeat(None, gap)


def _tabbed(file: Path, bad: Bad, encoding: str) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(file, bad, encoding):
        if not line:
            continue
        columns = line.split("\t", 2)
        if len(columns) < 2:
            bad(InputError(f"{file}: line {number}: write a text, a tab and its translation"))
            continue
        yield columns[0], columns[1]
