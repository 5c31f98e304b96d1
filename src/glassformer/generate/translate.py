"""Translation of texts of any number and length, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.checkpoint import Origin
from glassformer.generate.align import align as align_words
from glassformer.generate.align import chain
from glassformer.generate.generation import Generation
from glassformer.generate.job import GenerationJob, generate, prepare
from glassformer.generate.sentences import split
from glassformer.generate.settings import TRANSLATION, Settings, settings_for
from glassformer.glass import Alignment
from glassformer.tasks import Ids, Task
from glassformer.tasks.calls import wrong_kind
from glassformer.text import Languages, Tokenizer, texts_of

BATCH_TOKENS = {"cpu": 4_096, "cuda": 65_536}  # source tokens × beams of a batch

LANGUAGE_SETTINGS = ("forced_bos_token_id", "decoder_start_token_id")  # they name the target


@dataclass(frozen=True)
class Translation:
    """A translation of one text."""

    text: str
    score: float  # log-probability / length ** length_penalty; the mean of its parts
    tokens: list[str]
    source: str
    source_tokens: list[str]
    parts: int = 1  # a text that is too long is translated in parts
    broken: int = 0  # sentences that were too long and were split
    complete: bool = True  # False if max_new_tokens ended it
    alignment: Alignment | None = None  # if requested
    others: tuple[Translation, ...] = ()  # the next best ones, if requested

    def __str__(self) -> str:
        return self.text

    def cells(self, *, scores: bool = False) -> dict[str, Any]:
        """The translation as columns of a table, with its alignment, if it has one; its next best
        ones are `translation_2`, `translation_3` …"""
        cells: dict[str, Any] = {}
        for rank, each in enumerate((self, *self.others), 1):
            end = "" if rank == 1 else f"_{rank}"
            cells[f"translation{end}"] = each.text
            if scores:
                cells[f"score{end}"] = each.score
            if each.alignment is not None:
                cells[f"alignment{end}"] = each.alignment.pharaoh()
        return cells


@dataclass(frozen=True)
class _Part:
    text: str
    ids: list[int]  # with special tokens


@dataclass(frozen=True)
class TranslationJob:
    """Texts that are divided into parts, and the job that translates all parts."""

    texts: list[str]
    cut: list[list[tuple[list[_Part], int]]]  # of each text: its lines, each with its parts
    job: GenerationJob
    tokenizer: Tokenizer
    align: bool

    def join(self, best: Iterable[list[Generation]]) -> list[Translation]:
        """The translations of the texts, from the best generations of each part."""
        every = iter(best)
        translations = []
        for text, lines in zip(self.texts, self.cut, strict=True):
            done = [
                [_one(self.job, self.tokenizer, part, next(every), self.align) for part in pieces]
                for pieces, _ in lines
            ]
            whole = _join(text, done)
            translations.append(replace(whole, broken=sum(broken for _, broken in lines)))
        return translations


def translate(
    task: Task,
    tokenizer: Tokenizer,
    texts: str | Iterable[str],
    *,
    origin: Origin | None = None,
    source: str | None = None,
    target: str | None = None,
    n_best: int = 1,
    align: bool = False,
    **settings: Any,
) -> list[Translation]:
    """One translation per text, in their order; its next best ones are its `others`.

    Lines are translated separately, and stay lines. A line with more tokens than the model reads is
    translated sentence by sentence.

    Args:
        origin: the model's folder, whose files name its special tokens
        source: the language of the texts, for a model that translates from several
        target: the language to translate into, for a model that translates into several
        n_best: how many translations per text
        align: also align the words: `Translation.alignment`
        settings: fields of `Settings`; num_beams is 4, max_new_tokens the model's maximum length
            and logprobs on, if not given
    """
    plan = prepare_translation(
        task, tokenizer, texts, origin=origin, source=source, target=target, n_best=n_best,
        align=align, **settings,
    )  # fmt: skip
    return plan.join(_generate_all(plan.job))


def prepare_translation(
    task: Task,
    tokenizer: Tokenizer,
    texts: str | Iterable[str],
    *,
    origin: Origin | None = None,
    source: str | None = None,
    target: str | None = None,
    n_best: int = 1,
    align: bool = False,
    **settings: Any,
) -> TranslationJob:
    """Divide the texts and check everything, before anything is computed; as `translate`."""
    config = task.backbone.config
    if config.family != "seq2seq":
        raise wrong_kind(task, "translate")
    texts = texts_of(texts, "translate")
    tokenizer, languages = _in_languages(task, tokenizer, origin, source, target, settings)
    settings = {**languages, **settings}
    cut = [
        [_cut(line, tokenizer, config.max_length) for line in text.split("\n")] for text in texts
    ]
    parts = [part for lines in cut for pieces, _ in lines for part in pieces]
    usual = {**TRANSLATION, "max_new_tokens": config.max_length, "num_return_sequences": n_best}
    ids = [part.ids for part in parts]
    job = prepare(task, tokenizer, origin, ids, usual | settings)
    return TranslationJob(texts, cut, job, tokenizer, align)


def _in_languages(
    task: Task,
    tokenizer: Tokenizer,
    origin: Origin | None,
    source: str | None,
    target: str | None,
    settings: Mapping[str, Any],
) -> tuple[Tokenizer, dict[str, Any]]:
    """A tokenizer that names the language of the source, and settings for that of the target."""
    files, stated = ({}, {}) if origin is None else (origin.files, origin.config)
    known = Languages.of(tokenizer, files)
    chosen = {name: settings[name] for name in LANGUAGE_SETTINGS if name in settings}
    config = task.backbone.config
    usual = settings_for(chosen, files, stated, config.ids, config.vocab_size)
    named = tokenizer.token(usual.decoder_start_token_id or 0) in known.tokens.values()
    named = named if known.starts else usual.forced_bos_token_id is not None
    known.check(source, target, has_target=named)
    end = tokenizer.token(config.ids.end or 0)
    return known.tokenizer(tokenizer, source, target, end), known.options(tokenizer, target)


def notes(translations: Sequence[Translation]) -> list[str]:
    """Warnings about these translations, a line each."""
    broken = sum(each.broken for each in translations)
    cut_off = sum(not each.complete for each in translations)
    lines = []
    if broken:
        lines.append(
            f"{broken:,} sentences have more tokens than the model reads: they were translated in "
            "parts, split after commas or between words"
        )
    if cut_off:
        lines.append(f"{cut_off:,} translations reached max_new_tokens before their end")
    return lines


def _cut(line: str, tokenizer: Tokenizer, most: int) -> tuple[list[_Part], int]:
    line = line.strip()
    if not line:
        return [], 0

    def fits(text: str) -> bool:
        return len(tokenizer.encode(text).ids) <= most

    pieces, broken = split(line, fits)
    return [_Part(piece, tokenizer.encode(piece).ids) for piece in pieces], broken


def _generate_all(job: GenerationJob) -> list[list[Generation]]:
    """Texts of about the same length at the same time; returned in their own order."""
    sources, settings = job.sources or [], job.settings
    beams, best = settings.num_beams, settings.num_return_sequences
    best_of: dict[int, list[Generation]] = {}
    for group in _groups(sources, BATCH_TOKENS.get(job.task.device.type, 16_384) // beams):
        part = replace(
            job, prompts=[job.prompts[i] for i in group],
            sources=[sources[i] for i in group], batch_size=len(group) * max(beams, best),
        )  # fmt: skip
        texts = generate(part)
        for n, i in enumerate(group):
            best_of[i] = [_scored(text, settings) for text in texts[n * best : (n + 1) * best]]
    return [best_of[i] for i in range(len(sources))]


def _groups(sources: Ids, budget: int) -> Iterator[list[int]]:
    """The longest first: as many as fit, if each is as long as the longest of them."""
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    while order:
        count = max(1, budget // len(sources[order[0]]))
        yield order[:count]
        order = order[count:]


def _scored(text: Generation, settings: Settings) -> Generation:
    """Divide the score of a text by its length, as beam search does."""
    if settings.num_beams > 1:
        return text
    return replace(text, score=sum(text.logprobs) / len(text.ids) ** settings.length_penalty)


def _one(
    job: GenerationJob, tokenizer: Tokenizer, part: _Part, texts: list[Generation], align: bool
) -> Translation:
    """The best translation of a part, with the others in `others`."""
    first = job.settings.forced_bos_token_id
    start = [job.settings.decoder_start_token_id or 0, *([] if first is None else [first])]
    source_tokens = [tokenizer.readable(i) for i in part.ids]
    ranked = []
    for generation in texts:
        text = generation.text.strip()
        ranked.append(
            Translation(
                text=text,
                score=generation.score or 0.0,
                tokens=[tokenizer.readable(i) for i in generation.ids],
                source=part.text,
                source_tokens=source_tokens,
                complete=generation.stopped != "length",
                alignment=align_words(job.task, tokenizer, part.text, text, start=start)
                if align
                else None,
            )
        )
    return replace(ranked[0], others=tuple(ranked[1:]))


def _join(source: str, lines: list[list[Translation]]) -> Translation:
    """The translation of a whole text; its n-th best joins the n-th best of its parts."""
    parts = [part for line in lines for part in line]
    if len(parts) == 1 and len(lines) == 1:
        return replace(parts[0], source=source)
    depth = min((len(part.others) for part in parts), default=0)
    ranks = [
        [[(part, *part.others)[n] for part in line] for line in lines] for n in range(depth + 1)
    ]
    best, *others = [_concatenated(source, rank) for rank in ranks]
    return replace(best, others=tuple(others))


def _concatenated(source: str, lines: list[list[Translation]]) -> Translation:
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
