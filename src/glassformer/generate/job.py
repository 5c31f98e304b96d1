"""A generation job: checked prompts and settings, and the calls that run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from glassformer.checkpoint import Origin
from glassformer.errors import ConfigError, InputError, counted, shown
from glassformer.generate.beam import beam
from glassformer.generate.engine import Engine
from glassformer.generate.generation import Generation, IncrementalDecoder, Stopped, decode_tokens
from glassformer.generate.sampling import Request, generate_tokens
from glassformer.generate.settings import Settings, settings_for
from glassformer.generate.speculative import speculative_engine
from glassformer.model import Visitor
from glassformer.tasks import CausalLM, Ids, Task
from glassformer.tasks.calls import wrong_kind
from glassformer.text import Tokenizer, is_one, items_of

PROMPTS = "a text, a list of texts, or token ids"
BATCH_SIZE = {"cpu": 16, "cuda": 64}  # texts at once, if the caller does not choose


@dataclass(frozen=True)
class GenerationJob:
    """The model, the settings and the checked prompts of one call."""

    task: Task
    tokenizer: Tokenizer | None
    settings: Settings
    prompts: Ids  # of a translation model: its start token
    sources: Ids | None
    batch_size: int
    kept: Engine | None = None  # of the caller, reused for many calls
    draft: Task | str | None = None  # guesses the next tokens: see `speculative`

    def engine(self, texts: slice = slice(None), visitor: Visitor | None = None) -> Engine:
        """An engine with room for these prompts and their new tokens."""
        prompts = self.prompts[texts]
        most = self.task.backbone.config.max_length
        longest = max(len(ids) + self.settings.room(len(ids), most) - 1 for ids in prompts)
        sources = [] if self.sources is None else self.sources[texts]
        beams = self.settings.num_beams
        samples = self.settings.num_return_sequences if beams == 1 else beams
        count = len(prompts) * samples
        source = max(map(len, sources), default=0)
        if self.kept is not None:
            self.kept.check_fits(self.task, longest, source, beams)
            return self.kept
        if self.draft is not None:
            return speculative_engine(self.task, self.draft, max(longest, 1))
        return Engine(
            self.task,
            slots=min(self.batch_size, count) if beams == 1 else count,
            capacity=max(longest, 1),
            memory_capacity=source,
            beams=beams,
            visitor=visitor,
        )

    def requests(self) -> Iterator[Request]:
        """One request per text, in the order of the prompts; all samples of one prompt together."""
        most, count = self.task.backbone.config.max_length, self.settings.num_return_sequences
        for i, prompt in enumerate(self.prompts):
            limit = self.settings.room(len(prompt), most)
            source = None if self.sources is None else self.sources[i]
            for sample in range(count):
                yield Request(i * count + sample, prompt, limit, source, sample)

    def finish(self, text: Generation) -> Generation:
        """Decode its ids, if there is a tokenizer."""
        if self.tokenizer is None:
            return text
        return replace(text, text=decode_tokens(self.tokenizer, text.ids, self.settings.stop)[0])


def prepare(
    task: Task,
    tokenizer: Tokenizer | None,
    origin: Origin | None,
    prompts: Any,
    options: Mapping[str, Any],
    batch_size: int | None = None,
    engine: Engine | None = None,
    draft: Task | str | None = None,
) -> GenerationJob:
    """Check everything before anything is computed.

    Args:
        origin: the model's folder, whose files name its special tokens
        prompts: a text or a list of texts, or the token ids of one or many
        options: fields of `Settings`
        batch_size: texts that are generated at once
        engine: of an earlier call, to use again
        draft: a smaller model of the same tokens, or "prompt": texts are generated one by one
    """
    config = task.backbone.config
    if not isinstance(task, CausalLM):
        raise wrong_kind(task, "generate")
    if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
        raise ConfigError(f"batch_size = {shown(batch_size)}: write at least 1")
    files, stated = ({}, {}) if origin is None else (origin.files, origin.config)
    settings = settings_for(options, files, stated, config.ids, config.vocab_size)
    if (settings.stop or settings.bad_words) and tokenizer is None:
        raise InputError("stop and bad_words need a tokenizer, and this model has none")
    if tokenizer is not None and settings.bad_words:
        words = (*settings.bad_words_ids, *_word_ids(tokenizer, settings.bad_words))
        settings = settings.model_copy(update={"bad_words_ids": words})
    if settings.samples and settings.seed is None:
        settings = settings.model_copy(update={"seed": int(torch.randint(1 << 62, ()))})
    settings.check_fits(config.vocab_size)
    if draft is not None and (settings.num_beams > 1 or engine is not None):
        raise InputError("draft: it is for num_beams = 1 and no engine: leave it out")
    ids = _prompt_ids(tokenizer, prompts)
    for i, prompt in enumerate(ids):
        _check_prompt(i, prompt, config.vocab_size, config.max_length)
    batch_size = batch_size or BATCH_SIZE.get(task.device.type, 16)
    if config.family != "seq2seq":
        return GenerationJob(task, tokenizer, settings, ids, None, batch_size, engine, draft)
    start = settings.decoder_start_token_id
    if start is None:
        raise ConfigError("decoder_start_token_id: the model has none: write one")
    starts = [[start] for _ in ids]
    return GenerationJob(task, tokenizer, settings, starts, ids, batch_size, engine, draft)


def generate(job: GenerationJob) -> list[Generation]:
    """All texts, in the order of their prompts; those of one prompt next to each other."""
    if not job.prompts:
        return []
    texts = _beams(job) if job.settings.num_beams > 1 else _samples(job)
    return [job.finish(text) for text in texts]


def by_adapter(
    job: GenerationJob, names: Sequence[str | None], with_adapter: Callable[[str | None], Task]
) -> list[Generation]:
    """As `generate`, each prompt with the adapter of this name, or without one.

    Args:
        with_adapter: the task with the adapter of a name, or the base model for None
    """
    if len(names) != len(job.prompts):
        raise InputError(
            f"adapter: {counted(len(names), 'names')} for {counted(len(job.prompts), 'prompts')}: "
            "write one for each"
        )
    texts: dict[int, list[Generation]] = {}
    for name in dict.fromkeys(names):
        task = with_adapter(name)
        if not isinstance(task, CausalLM):
            raise wrong_kind(task, "generate")
        places = [i for i, each in enumerate(names) if each == name]
        part = replace(
            job, task=task, prompts=[job.prompts[i] for i in places],
            sources=None if job.sources is None else [job.sources[i] for i in places],
        )  # fmt: skip
        generated = generate(part)
        count = job.settings.num_return_sequences
        texts |= {i: generated[n * count :][:count] for n, i in enumerate(places)}
    return [text for i in range(len(names)) for text in texts[i]]


def notes(job: GenerationJob) -> list[str]:
    """Warnings about the settings, a line each."""
    most, limit = job.task.backbone.config.max_length, job.settings.max_new_tokens
    least = min((job.settings.room(len(prompt), most) for prompt in job.prompts), default=limit)
    if least == limit:
        return []
    return [
        f"max_new_tokens = {limit}: the model reads at most {most} tokens, so a text ends after "
        f"{least}"
    ]


def stream(job: GenerationJob) -> Iterator[str]:
    """One text, piece by piece as it is generated: complete characters, without the stop string."""
    if len(job.prompts) * job.settings.num_return_sequences != 1:
        raise InputError(
            "stream: it generates one text: give one prompt, with num_return_sequences = 1"
        )
    if job.tokenizer is None:
        raise InputError("stream: this model has no tokenizer")
    if job.settings.num_beams > 1:
        raise ConfigError("stream: beam search chooses a text at its end: write num_beams = 1")
    decoder = IncrementalDecoder(job.tokenizer, job.settings.stop)
    for choice in generate_tokens(job.engine(), job.requests(), job.settings, job.tokenizer):
        decoder.add(choice.token)
        if piece := decoder.more(last=choice.stopped is not None):
            yield piece


def _samples(job: GenerationJob) -> list[Generation]:
    requests = list(job.requests())
    ids: list[list[int]] = [[] for _ in requests]
    logprobs: list[list[float]] = [[] for _ in requests]
    top: list[list[tuple[tuple[int, float], ...]]] = [[] for _ in requests]
    ends: list[Stopped] = ["length"] * len(requests)
    for choice in generate_tokens(job.engine(), requests, job.settings, job.tokenizer):
        number = choice.request.number
        ids[number].append(choice.token)
        if choice.logprob is not None:
            logprobs[number].append(choice.logprob)
        if choice.top:
            top[number].append(choice.top)
        ends[number] = choice.stopped or ends[number]
    with_logprobs = job.settings.logprobs
    return [
        Generation(
            tuple(i), end, sum(p) if with_logprobs else None, tuple(p), top_logprobs=tuple(t)
        )
        for i, end, p, t in zip(ids, ends, logprobs, top, strict=True)
    ]


def _beams(job: GenerationJob) -> list[Generation]:
    slots = job.batch_size if job.kept is None else job.kept.slots
    count = max(1, slots // job.settings.num_beams)
    texts: list[Generation] = []
    for start in range(0, len(job.prompts), count):
        part = slice(start, start + count)
        sources = None if job.sources is None else job.sources[part]
        engine = job.engine(part)
        for best in beam(engine, job.prompts[part], job.settings, sources, job.tokenizer):
            texts += best
    return texts


def _prompt_ids(tokenizer: Tokenizer | None, prompts: Any) -> list[list[int]]:
    """A text or many, or the token ids of one or many."""
    rows = [prompts] if is_one(prompts) else items_of(prompts, "generate", PROMPTS)
    if rows and all(type(token) is int for token in rows):
        rows = [rows]
    texts = [row for row in rows if isinstance(row, str)]
    if texts and tokenizer is None:
        raise InputError(
            "this model has no tokenizer: put a tokenizer.json into its folder, or give token ids"
        )
    if len(texts) == len(rows) and tokenizer is not None:
        return [encoding.ids for encoding in tokenizer.encode_all(texts)]
    for i, row in enumerate(rows):
        is_ids = isinstance(row, Sequence) and all(type(number) is int for number in row)
        if not (isinstance(row, str) if texts else is_ids):
            raise InputError(f"prompt {i} is {shown(row)}: give texts, or lists of token ids")
    return [list(row) for row in rows]


def _check_prompt(number: int, ids: Sequence[int], vocab: int, most: int) -> None:
    if not ids:
        raise InputError(f"prompt {number} is empty: give at least one token")
    if len(ids) > most:
        raise InputError(
            f"prompt {number} has {len(ids)} tokens and the model reads at most {most}: shorten it"
        )
    wrong = [token for token in ids if not 0 <= token < vocab]
    if wrong:
        raise InputError(
            f"prompt {number}: {wrong[0]} is not a token id: write numbers from 0 to {vocab - 1}"
        )


def _word_ids(tokenizer: Tokenizer, words: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """A word at the start of a text and inside it: often these are different tokens."""
    unknown = {tokenizer.id("<unk>"), tokenizer.id("[UNK]")}
    for word in words:
        for ids in {tuple(row) for row in tokenizer.ids([word, f" {word}"])}:
            if not ids or unknown & set(ids):
                raise ConfigError(f"bad_words: {shown(word)} has no tokens in this vocabulary")
            yield ids
