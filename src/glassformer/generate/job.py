"""From prompts to texts: what `Model.generate` and the command line share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from glassformer.checkpoint import Origin
from glassformer.errors import ConfigError, InputError, shown
from glassformer.generate.beam import beam
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation, IncrementalDecoder, Stopped, decode_tokens
from glassformer.generate.sampling import Request, write
from glassformer.generate.settings import Settings, settings_for
from glassformer.model import Visitor
from glassformer.tasks import CausalLM, Ids, Task
from glassformer.text import Tokenizer

SIDE_BY_SIDE = {"cpu": 16, "cuda": 64}  # texts at once, where the caller does not say


@dataclass(frozen=True)
class GenerationJob:
    """All that decides what is written: the model, the settings, the checked prompts."""

    task: Task
    tokenizer: Tokenizer | None
    settings: Settings
    prompts: Ids  # a translator's: its start token
    sources: Ids | None
    at_once: int
    kept: Engine | None = None  # to write in, from an earlier call

    def engine(self, texts: slice = slice(None), visitor: Visitor | None = None) -> Engine:
        """As large as these prompts and what may follow them need."""
        prompts = self.prompts[texts]
        most = self.task.backbone.config.max_length
        longest = max(len(each) + self.settings.room(len(each), most) - 1 for each in prompts)
        sources = [] if self.sources is None else self.sources[texts]
        beams = self.settings.num_beams
        samples = self.settings.num_return_sequences if beams == 1 else beams
        count = len(prompts) * samples
        source = max(map(len, sources), default=0)
        if self.kept is not None:
            self.kept.check_fits(self.task, longest, source, beams)
            return self.kept
        return Engine(
            self.task,
            slots=min(self.at_once, count) if beams == 1 else count,
            capacity=max(longest, 1),
            memory_capacity=source,
            beams=beams,
            visitor=visitor,
        )

    def requests(self) -> Iterator[Request]:
        """In the order of the prompts, all samples of one together."""
        most, count = self.task.backbone.config.max_length, self.settings.num_return_sequences
        for i, prompt in enumerate(self.prompts):
            limit = self.settings.room(len(prompt), most)
            source = None if self.sources is None else self.sources[i]
            for sample in range(count):
                yield Request(i * count + sample, prompt, limit, source, sample)

    def finish(self, text: Generation) -> Generation:
        if self.tokenizer is None:
            return text
        return replace(text, text=decode_tokens(self.tokenizer, text.ids, self.settings.stop)[0])


def prepare(
    task: Task,
    tokenizer: Tokenizer | None,
    origin: Origin | None,
    prompts: Any,
    given: Mapping[str, Any],
    batch_size: int | None = None,
    engine: Engine | None = None,
) -> GenerationJob:
    """Check all there is to check, before anything is computed."""
    config = task.backbone.config
    if not isinstance(task, CausalLM):
        raise InputError(f"generate: this model is for {task.spec.kind}: it writes no text")
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ConfigError(f"batch_size = {shown(batch_size)}: write at least 1")
    files, stated = ({}, {}) if origin is None else (origin.files, origin.config)
    settings = settings_for(given, files, stated, config.ids)
    if (settings.stop or settings.bad_words) and tokenizer is None:
        raise InputError("stop and bad_words are texts, and this model came without a tokenizer")
    if tokenizer is not None and settings.bad_words:
        words = (*settings.bad_words_ids, *_word_ids(tokenizer, settings.bad_words))
        settings = settings.model_copy(update={"bad_words_ids": words})
    settings.check_fits(config.vocab_size)
    ids = _prompt_ids(tokenizer, prompts)
    for i, each in enumerate(ids):
        _check_prompt(i, each, config.vocab_size, config.max_length)
    at_once = batch_size or SIDE_BY_SIDE.get(task.device.type, 16)
    if config.family != "seq2seq":
        return GenerationJob(task, tokenizer, settings, ids, None, at_once, engine)
    start = settings.decoder_start_token_id
    if start is None:
        raise ConfigError("decoder_start_token_id: the model names none, write one")
    starts = [[start] for _ in ids]
    return GenerationJob(task, tokenizer, settings, starts, ids, at_once, engine)


def generate(writing: GenerationJob) -> list[Generation]:
    """All texts, in the order of their prompts; those of one prompt beside each other."""
    if not writing.prompts:
        return []
    found = _beams(writing) if writing.settings.num_beams > 1 else _samples(writing)
    return [writing.finish(each) for each in found]


def stream(writing: GenerationJob) -> Iterator[str]:
    """One text, piece by piece as it is written; only whole characters, no stop string."""
    if len(writing.prompts) * writing.settings.num_return_sequences != 1:
        raise InputError("stream: one text at a time: give one prompt")
    if writing.tokenizer is None:
        raise InputError("stream: this model came without a tokenizer")
    if writing.settings.num_beams > 1:
        raise ConfigError("stream: num_beams decides at the end: write num_beams = 1")
    spelling = IncrementalDecoder(writing.tokenizer, writing.settings.stop)
    for choice in write(writing.engine(), writing.requests(), writing.settings, writing.tokenizer):
        spelling.add(choice.token)
        if piece := spelling.more(last=choice.stopped is not None):
            yield piece


def _samples(writing: GenerationJob) -> list[Generation]:
    requests = list(writing.requests())
    ids: list[list[int]] = [[] for _ in requests]
    logprobs: list[list[float]] = [[] for _ in requests]
    ends: list[Stopped] = ["length"] * len(requests)
    for choice in write(writing.engine(), requests, writing.settings, writing.tokenizer):
        number = choice.request.number
        ids[number].append(choice.token)
        if choice.logprob is not None:
            logprobs[number].append(choice.logprob)
        ends[number] = choice.stopped or ends[number]
    asked = writing.settings.logprobs
    return [
        Generation(tuple(i), end, sum(p) if asked else None, tuple(p))
        for i, end, p in zip(ids, ends, logprobs, strict=True)
    ]


def _beams(writing: GenerationJob) -> list[Generation]:
    texts = max(1, writing.at_once // writing.settings.num_beams)
    found: list[Generation] = []
    for start in range(0, len(writing.prompts), texts):
        part = slice(start, start + texts)
        sources = None if writing.sources is None else writing.sources[part]
        engine = writing.engine(part)
        for each in beam(
            engine, writing.prompts[part], writing.settings, sources, writing.tokenizer
        ):
            found += each
    return found


def _prompt_ids(tokenizer: Tokenizer | None, prompts: Any) -> list[list[int]]:
    """A text or many, or the token ids of one or many."""
    one = isinstance(prompts, str) or (
        isinstance(prompts, Sequence) and bool(prompts) and all(type(i) is int for i in prompts)
    )
    wanted = [prompts] if one else prompts
    if not isinstance(wanted, Sequence):
        raise InputError(f"generate: {shown(prompts)}: give a text, a list of texts, or token ids")
    texts = [each for each in wanted if isinstance(each, str)]
    if texts and tokenizer is None:
        raise InputError(
            "this model came without a tokenizer: put a tokenizer.json into its folder, or give "
            "token ids"
        )
    if len(texts) == len(wanted) and tokenizer is not None:
        return [each.ids for each in tokenizer.encode_all(texts)]
    for i, each in enumerate(wanted):
        plain = isinstance(each, Sequence) and not isinstance(each, str)
        if not plain or not all(type(number) is int for number in each):
            raise InputError(f"prompt {i} is {shown(each)}: give texts, or lists of token ids")
    return [list(each) for each in wanted]


def _check_prompt(number: int, ids: Sequence[int], vocab: int, most: int) -> None:
    if not ids:
        raise InputError(f"prompt {number} is empty: give at least one token")
    if len(ids) > most:
        raise InputError(
            f"prompt {number} has {len(ids)} tokens and the model reads at most {most}: shorten it"
        )
    wrong = [each for each in ids if not 0 <= each < vocab]
    if wrong:
        raise InputError(
            f"prompt {number}: {wrong[0]} is no token: write numbers from 0 to {vocab - 1}"
        )


def _word_ids(tokenizer: Tokenizer, words: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """A word at the beginning of a text and inside it: many vocabularies tell them apart."""
    unknown = {tokenizer.id("<unk>"), tokenizer.id("[UNK]")}
    for word in words:
        for ids in {tuple(each) for each in tokenizer.ids([word, f" {word}"])}:
            if not ids or unknown & set(ids):
                raise ConfigError(f"bad_words: {shown(word)} has no tokens in this vocabulary")
            yield ids
