"""Translation: lines in, lines out, whatever their number and length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.checkpoint import Origin
from glassformer.errors import InputError, shown
from glassformer.generate.align import align as align_words
from glassformer.generate.align import chain
from glassformer.generate.generation import Generation
from glassformer.generate.job import GenerationJob, generate, prepare
from glassformer.generate.sentences import split
from glassformer.generate.settings import Settings
from glassformer.glass import Alignment
from glassformer.tasks import Ids, Task
from glassformer.text import Tokenizer

# Source tokens × beams that are worked on at once.
AT_ONCE = {"cpu": 4_096, "cuda": 65_536}


@dataclass(frozen=True)
class Translation:
    text: str
    score: float  # log-probability / length ** length_penalty; of several parts the mean
    tokens: list[str]
    source: str
    source_tokens: list[str]
    parts: int = 1  # a text that is too long is translated in parts
    broken: int = 0  # sentences that were too long themselves, and were parted inside
    complete: bool = True  # False if max_new_tokens ended it
    alignment: Alignment | None = None  # if it was asked for
    others: tuple[Translation, ...] = ()  # the next best ones, if more than one was asked for

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Part:
    text: str
    ids: list[int]  # as the model reads it


def translate(
    task: Task,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    origin: Origin | None = None,
    n_best: int = 1,
    align: bool = False,
    **settings: Any,
) -> list[Translation]:
    """One translation a text, in their order; the next best ones of each are its `others`.

    Lines are translated each for itself, and stay lines. A line with more tokens than the model
    reads is translated sentence by sentence. The settings are those of `generate`; if not given,
    num_beams is 4 and max_new_tokens what the model can write.
    """
    config = task.backbone.config
    if config.family != "seq2seq":
        raise InputError(
            f"translate: this model is of the family {config.family}: open a translation model"
        )
    if not isinstance(texts, Sequence):
        raise InputError(f"translate: {shown(texts)}: give a text, or a list of texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"translate: text {i} is {shown(text)}: write a string")
    cut = [
        [_cut(line, tokenizer, config.max_length) for line in text.split("\n")] for text in texts
    ]
    parts = [part for lines in cut for pieces, _ in lines for part in pieces]
    usual = {"num_beams": 4, "max_new_tokens": config.max_length, "logprobs": True}
    search = {**usual, "num_return_sequences": n_best, **settings}
    writing = prepare(task, tokenizer, origin, [part.ids for part in parts], search)
    written = iter(_write_all(writing))
    found = []
    for text, lines in zip(texts, cut, strict=True):
        done = [
            [_one(task, tokenizer, part, next(written), align) for part in pieces]
            for pieces, _ in lines
        ]
        whole = _join(text, done)
        found.append(replace(whole, broken=sum(broken for _, broken in lines)))
    return found


def notes(found: Sequence[Translation]) -> list[str]:
    """What a user should know of these translations, a line each."""
    broken, cut_off = sum(t.broken for t in found), sum(not t.complete for t in found)
    lines = []
    if broken:
        lines.append(
            f"{broken:,} sentences have more tokens than the model reads: they were translated in "
            "parts, cut at commas or between words"
        )
    if cut_off:
        lines.append(f"{cut_off:,} translations came to max_new_tokens before their end")
    return lines


def _cut(line: str, tokenizer: Tokenizer, most: int) -> tuple[list[_Part], int]:
    line = line.strip()
    if not line:
        return [], 0

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text).ids) <= most

    pieces, broken = split(line, fits)
    return [_Part(each, tokenizer.encode(each).ids) for each in pieces], broken


def _write_all(writing: GenerationJob) -> list[list[Generation]]:
    """Those of about the same length at the same time; given back in their own order."""
    sources, settings = writing.sources or [], writing.settings
    beams, best = settings.num_beams, settings.num_return_sequences
    found: dict[int, list[Generation]] = {}
    for group in _groups(sources, AT_ONCE.get(writing.task.device.type, 16_384) // beams):
        part = replace(
            writing, prompts=[writing.prompts[i] for i in group],
            sources=[sources[i] for i in group], at_once=len(group) * max(beams, best),
        )  # fmt: skip
        made = generate(part)
        for n, i in enumerate(group):
            found[i] = [_scored(each, settings) for each in made[n * best : (n + 1) * best]]
    return [found[i] for i in range(len(sources))]


def _groups(sources: Ids, budget: int) -> Iterator[list[int]]:
    """The longest first: as many as fit with the room of the longest each."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    while order:
        count = max(1, budget // len(sources[order[0]]))
        yield order[:count]
        order = order[count:]


def _scored(text: Generation, settings: Settings) -> Generation:
    """A beam's scores know their length; a single text's is made the same."""
    if settings.num_beams > 1:
        return text
    return replace(text, score=sum(text.logprobs) / len(text.ids) ** settings.length_penalty)


def _one(
    task: Task, tokenizer: Tokenizer, part: _Part, written: list[Generation], align: bool
) -> Translation:
    """The best of a part, and the others behind it."""
    source_tokens = [tokenizer.readable(i) for i in part.ids]
    found = []
    for each in written:
        text = each.text.strip()
        found.append(
            Translation(
                text=text,
                score=each.score or 0.0,
                tokens=[tokenizer.readable(i) for i in each.ids],
                source=part.text,
                source_tokens=source_tokens,
                complete=each.stopped != "length",
                alignment=align_words(task, tokenizer, part.text, text) if align else None,
            )
        )
    return replace(found[0], others=tuple(found[1:]))


def _join(source: str, lines: list[list[Translation]]) -> Translation:
    """The translation of a whole text; the n-th best is made of its parts' n-th best."""
    parts = [part for line in lines for part in line]
    if len(parts) == 1 and len(lines) == 1:
        return replace(parts[0], source=source)
    depth = min((len(part.others) for part in parts), default=0)
    ranks = [
        [[(part, *part.others)[n] for part in line] for line in lines] for n in range(depth + 1)
    ]
    best, *others = [_end_to_end(source, rank) for rank in ranks]
    return replace(best, others=tuple(others))


def _end_to_end(source: str, lines: list[list[Translation]]) -> Translation:
    parts = [part for line in lines for part in line]
    aligned = [part.alignment for part in parts if part.alignment is not None]
    return Translation(
        text="\n".join(" ".join(part.text for part in line) for line in lines),
        score=sum(part.score for part in parts) / max(1, len(parts)),
        tokens=[token for part in parts for token in part.tokens],
        source=source,
        source_tokens=[token for part in parts for token in part.source_tokens],
        parts=len(parts),
        complete=all(part.complete for part in parts),
        alignment=chain(aligned) if aligned else None,
    )
