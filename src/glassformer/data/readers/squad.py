"""SQuAD files: questions with their answers and contexts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from glassformer.data.readers.files import (
    UTF8,
    Bad,
    decoded,
    each_file,
    find_files,
    some,
    stop,
    unpacked,
)
from glassformer.errors import InputError, shown
from glassformer.strict import plainly

SHAPE = '{"data": [{"paragraphs": [{"context": …, "qas": […]}]}]}'
MOST_JSON = 2**28  # bytes: a file of questions is read into memory
FEW_OBJECTS = 10_000

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Question:
    """A question and its answers in the context: each text, and the character it starts at."""

    id: str
    question: str
    context: str
    answers: list[tuple[str, int]]
    impossible: bool  # the context does not answer it (SQuAD 2.0)
    where: str = field(default="", compare=False)


class _Answer(BaseModel, strict=True):
    text: str = Field(min_length=1)
    answer_start: int = Field(ge=0)


class _QuestionAnswers(BaseModel, strict=True):
    id: str | int
    question: str
    answers: list[_Answer]
    is_impossible: bool = False


class _Paragraph(BaseModel, strict=True):
    context: str
    qas: list[_QuestionAnswers]


class _Article(BaseModel, strict=True):
    paragraphs: list[_Paragraph]


class _Squad(BaseModel, strict=True):
    data: list[_Article]


def questions(path: PathLike, bad: Bad = stop, encoding: str = UTF8) -> Iterator[Question]:
    """Yield the questions of SQuAD 1.1 or 2.0 files."""

    def read(file: Path) -> Iterator[Question]:
        return some(_questions(file, bad, encoding), file, "question")

    return each_file(find_files(path), read, bad)


def _questions(file: Path, bad: Bad, encoding: str) -> Iterator[Question]:
    with unpacked(file) as stream:
        content = stream.read(MOST_JSON + 1)
    if len(content) > MOST_JSON:
        raise InputError(f"{file}: more than {MOST_JSON:,} bytes: cut it into smaller files")
    if (objects := content.count(b"{")) > max(FEW_OBJECTS, len(content) // 64):
        raise InputError(f"{file}: {objects:,} objects with next to nothing in them")
    try:
        squad = _Squad.model_validate_json(decoded(content, f"{file}", encoding))
    except ValidationError as error:
        first = error.errors()[0]
        mistake = f"{_field_path(first['loc'])}{plainly(first['msg'])}"
        other = "" if len(first["loc"]) > 1 else f"not a SQuAD file, {SHAPE}: "
        raise InputError(f"{file}: {other}{mistake}") from None
    for i, article in enumerate(squad.data):
        for j, paragraph in enumerate(article.paragraphs):
            for k, qa in enumerate(paragraph.qas):
                where = f"{file}: {_field_path(('data', i, 'paragraphs', j, 'qas', k))}"
                question = _question(qa, paragraph.context, where)
                if isinstance(question, InputError):
                    bad(question)
                else:
                    yield question


def _question(qa: _QuestionAnswers, context: str, where: str) -> Question | InputError:
    for answer in qa.answers:
        if not context.startswith(answer.text, answer.answer_start):
            start = context.find(answer.text)
            hint = f"write {start}" if start >= 0 else "the context does not hold it"
            return InputError(
                f"{where}the answer {shown(answer.text)} is not at answer_start = "
                f"{answer.answer_start}: {hint}"
            )
    if bool(qa.answers) == qa.is_impossible:
        return InputError(f"{where}write at least one answer, or none and is_impossible = true")
    answers = [(answer.text, answer.answer_start) for answer in qa.answers]
    return Question(str(qa.id), qa.question, context, answers, qa.is_impossible, where)


def _field_path(steps: tuple[int | str, ...]) -> str:
    """The path of a field: data[0].paragraphs[3]."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return f"{path[1:]}: " if path else ""
