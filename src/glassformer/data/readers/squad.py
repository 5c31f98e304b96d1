"""SQuAD files: questions with their answers and contexts."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from glassformer.data.readers.files import Bad, find_files, some, stop, unpacked
from glassformer.errors import InputError, shown

MOST_JSON = 2**29  # bytes: a file of questions is read whole

PathLike = str | os.PathLike[str]


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
