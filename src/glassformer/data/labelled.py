"""Tagged words, questions with answers, and pairs of translations."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from glassformer.data.files import PACKED, Bad, find_files, kind, read_lines, some, stop, unpacked
from glassformer.errors import ConfigError, InputError, shown

CONLL = ("word", "pos", "chunk", "ner")  # CoNLL-2003
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
MOST_JSON = 2**29  # bytes: a file of questions is read whole

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Tagged:
    """A sentence, and a tag for each of its words."""

    words: list[str]
    tags: list[str]
    source: str = field(default="", compare=False)  # its file, and the line of each word
    lines: list[int] = field(default_factory=list, compare=False, repr=False)


def tagged(path: PathLike, column: int | str | None = None, bad: Bad = stop) -> Iterator[Tagged]:
    """Sentences of CoNLL files: a word a line, columns apart by tabs or spaces.

    The tags are in `column`: its number from 0, negative from the end, or its name (`pos`, `chunk`,
    `ner`; in .conllu files `upos`, `xpos`, `deprel` …). If not given: the last one, or `upos`.
    """
    for file in find_files(path):
        yield from some(_sentences(file, column, bad), file, "sentence")


def _sentences(file: Path, column: int | str | None, bad: Bad) -> Iterator[Tagged]:
    treebank = kind(file) == ".conllu"
    names, word, usual = (CONLLU, 1, 3) if treebank else (CONLL, 0, -1)
    tag = usual if column is None else _place(column, names)
    least = max(2, tag + 1, -tag)
    width = max(len(CONLLU), least) if treebank else 0  # 0: as many columns as the first line has
    held = Tagged([], [], str(file))
    wrong = False  # one bad line spoils its sentence
    for number, line in read_lines(file):
        columns = _split(line)
        if not columns or columns[0] == "-DOCSTART-":
            if held.words and not wrong:
                yield held
            held, wrong = Tagged([], [], str(file)), False
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


@dataclass(frozen=True)
class Question:
    """A question whose answers stand in its context: each text, and the character it starts at."""

    id: str
    question: str
    context: str
    answers: list[tuple[str, int]]
    impossible: bool  # the context does not answer it (SQuAD 2.0)
    where: str = field(default="", compare=False)


class _Answer(BaseModel, strict=True):
    text: str = Field(min_length=1)
    answer_start: int = Field(ge=0)


class _Asked(BaseModel, strict=True):
    id: str | int
    question: str
    answers: list[_Answer]
    is_impossible: bool = False


class _Paragraph(BaseModel, strict=True):
    context: str
    qas: list[_Asked]


class _Article(BaseModel, strict=True):
    paragraphs: list[_Paragraph]


class _Squad(BaseModel, strict=True):
    data: list[_Article]


def questions(path: PathLike, bad: Bad = stop) -> Iterator[Question]:
    """SQuAD 1.1 and 2.0."""
    for file in find_files(path):
        yield from some(_questions(file, bad), file, "question")


def _questions(file: Path, bad: Bad) -> Iterator[Question]:
    with unpacked(file) as stream:
        whole = stream.read(MOST_JSON + 1)
    if len(whole) > MOST_JSON:
        raise InputError(f"{file}: more than {MOST_JSON:,} bytes: cut it into smaller files")
    try:
        found = _Squad.model_validate_json(whole.removeprefix(codecs.BOM_UTF8))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{file}: {_spell(first['loc'])}{first['msg']}") from None
    for i, article in enumerate(found.data):
        for j, paragraph in enumerate(article.paragraphs):
            for k, asked in enumerate(paragraph.qas):
                where = f"{file}: {_spell(('data', i, 'paragraphs', j, 'qas', k))}"
                question = _question(asked, paragraph.context, where)
                if isinstance(question, InputError):
                    bad(question)
                else:
                    yield question


def _question(asked: _Asked, context: str, where: str) -> Question | InputError:
    for answer in asked.answers:
        if not context.startswith(answer.text, answer.answer_start):
            right = context.find(answer.text)
            hint = f"write {right}" if right >= 0 else "the context does not hold it"
            return InputError(
                f"{where}the answer {shown(answer.text)} is not at answer_start = "
                f"{answer.answer_start}: {hint}"
            )
    if bool(asked.answers) == asked.is_impossible:
        return InputError(f"{where}write at least one answer, or none and is_impossible = true")
    answers = [(answer.text, answer.answer_start) for answer in asked.answers]
    return Question(str(asked.id), asked.question, context, answers, asked.is_impossible, where)


def _spell(steps: tuple[int | str, ...]) -> str:
    """data[0].paragraphs[3]: the way to a field."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return f"{path[1:]}: " if path else ""


def pairs(
    path: PathLike, other: PathLike | None = None, languages: tuple[str, str] | None = None
) -> Iterator[tuple[str, str]]:
    """A text and its translation, line by line.

    Two files; or one with a tab between the two (what stands behind a second tab is left out); or,
    with `languages` such as ("en", "ru"), the stem `train` of train.en and train.ru, or their
    folder. Line n of one file is the translation of line n of the other: nothing is skipped.
    """
    if languages is not None:
        path, other = sides(Path(path), languages)
    if other is not None:
        return _parallel(Path(path), Path(other))
    if Path(path).is_dir():
        raise InputError(f"{path}: name the languages of its files, such as ('en', 'ru')")
    (file,) = find_files(path)
    return some(_tabbed(file), file, "pair")


def sides(path: Path, languages: tuple[str, ...]) -> tuple[Path, Path]:
    """The two files of a stem, or of a folder that holds one."""
    folder = path if path.is_dir() else path.parent
    found: list[dict[str, Path]] = [{}, {}]  # for each language, stem → file
    for file in sorted(folder.glob("*")):
        name = file.name.removesuffix(file.suffix) if file.suffix.lower() in PACKED else file.name
        for side, language in zip(found, languages, strict=True):
            if name.endswith(f".{language}"):
                side[name.removesuffix(f".{language}")] = file
    stems = sorted(found[0].keys() & found[1].keys())
    wanted = stems if path.is_dir() else [path.name]
    if len(wanted) != 1 or wanted[0] not in stems:
        both = " and ".join(f"NAME.{language}" for language in languages)
        there = ", ".join(str(folder / stem) for stem in stems) or "none is there"
        raise InputError(f"{path}: write the one NAME whose {both} you mean: {there}")
    return found[0][wanted[0]], found[1][wanted[0]]


def _parallel(one: Path, two: Path) -> Iterator[tuple[str, str]]:
    left = right = 0
    for first, second in zip_longest(read_lines(one), read_lines(two)):
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


def _tabbed(file: Path) -> Iterator[tuple[str, str]]:
    for number, line in read_lines(file):
        if not line:
            continue
        columns = line.split("\t")
        if len(columns) < 2:
            raise InputError(f"{file}: line {number}: write a text, a tab and its translation")
        yield columns[0], columns[1]
