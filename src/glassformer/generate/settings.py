"""Generation settings, under the names of transformers.

This file does not import torch, so that a wrong setting is reported at once.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypedDict

from pydantic import Field, PositiveInt, model_validator

from glassformer.config import TokenIds
from glassformer.errors import CheckpointError, ConfigError
from glassformer.strict import Named, read
from glassformer.strictjson import parse

MOST_CHOICES = 10_000_000  # candidates of one beam search step
DEFAULTS = "generation_config.json"
# A folder's special tokens are part of the model, so they are used. Its search settings (num_beams,
# temperature, lengths, penalties) are ignored: those are the caller's choice.
FROM_FOLDER = (
    "eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "bad_words_ids", "suppress_tokens",
)  # fmt: skip
ONE_OR_MORE = ("eos_token_id", "forced_eos_token_id", "stop", "bad_words")
SAMPLING = ("temperature", "top_k", "top_p", "min_p")
TRANSLATION = {"num_beams": 4, "logprobs": True}  # the defaults of `translate` that differ


class GenerationOptions(TypedDict, total=False):
    """The keyword arguments of `generate`, for editors and type checkers; None: not given."""

    max_new_tokens: int
    min_new_tokens: int
    stop: str | Sequence[str]
    do_sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    num_return_sequences: int
    num_beams: int
    length_penalty: float
    early_stopping: Literal[True, False, "never"]
    repetition_penalty: float
    no_repeat_ngram_size: int
    bad_words: str | Sequence[str]
    bad_words_ids: Sequence[Sequence[int]]
    suppress_tokens: Sequence[int]
    forced_bos_token_id: int | None
    forced_eos_token_id: int | Sequence[int]
    eos_token_id: int | Sequence[int]
    decoder_start_token_id: int | None
    logprobs: bool
    top_logprobs: int


# What other libraries call a setting.
ELSEWHERE = {
    "max_new_tokens": ("max_length", "max_tokens", "length", "num_tokens"),
    "num_return_sequences": ("n", "num_samples", "best_of"),
    "num_beams": ("beams", "beam_size", "beam_width"),
    "stop": ("stop_sequences", "stop_strings"),
    "repetition_penalty": ("repeat_penalty", "frequency_penalty", "presence_penalty"),
}


class Settings(Named):
    """How to generate. Fields with a description are also options of the commands."""

    max_new_tokens: PositiveInt = Field(20, description="The most new tokens.")
    min_new_tokens: int = Field(
        0, ge=0, description="The fewest new tokens before the text may end."
    )
    stop: tuple[str, ...] = Field(
        (), description="End the text before this string; may be repeated."
    )

    # Greedy decoding or, with do_sample, sampling. Without do_sample, the next four decide.
    do_sample: bool | None = Field(
        None, description="Sample the next token, or always take the likeliest one."
    )
    temperature: float | None = Field(
        None,
        ge=0,
        description="Sampling temperature: below 1 more predictable, above 1 more varied.",
    )
    top_k: int | None = Field(
        None, ge=0, description="Sample from the k likeliest tokens; 0: from all."
    )
    top_p: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Sample from the smallest set of tokens with total probability p.",
    )
    min_p: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Sample from tokens at least this fraction as probable as the likeliest one.",
    )
    # Without one, each call draws its own from torch, which torch.manual_seed makes repeatable.
    seed: int | None = Field(
        None, ge=0, lt=1 << 63, description="The same seed gives the same sample."
    )
    num_return_sequences: int = Field(
        1, ge=1, le=10_000, description="How many texts to generate for each prompt."
    )

    num_beams: PositiveInt = Field(
        1, description="Number of beams; 1 is greedy decoding or sampling."
    )
    length_penalty: float = Field(
        1.0,
        description="Divide beam scores by length to this power: above 0 favours long texts.",
    )
    early_stopping: Literal[True, False, "never"] = Field(
        False,
        description="Beam search stops when num_beams texts are finished: true, false or never.",
    )

    repetition_penalty: float = Field(
        1.0, gt=0, description="Above 1, tokens that are already in the text become less likely."
    )
    no_repeat_ngram_size: int = Field(
        0, ge=0, description="Never repeat a sequence of this many tokens; 0: no limit."
    )
    bad_words: tuple[str, ...] = Field((), description="Never generate this word; may be repeated.")
    bad_words_ids: tuple[tuple[int, ...], ...] = ()  # the same as token ids
    suppress_tokens: tuple[int, ...] = ()  # forbidden tokens
    forced_bos_token_id: int | None = None  # the first token after a start token
    forced_eos_token_id: tuple[int, ...] = ()  # the last token, where max_new_tokens ends the text
    eos_token_id: tuple[int, ...] = ()  # ends a text
    decoder_start_token_id: int | None = None  # the start token of a translation model's decoder

    # Of the model itself, before any other setting changed them.
    logprobs: bool = Field(False, description="Also give the log-probability of each token.")
    top_logprobs: int = Field(0, ge=0, le=20)  # and those of this many likeliest tokens

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Lists become tuples, a single value a tuple of one; None means not given."""
        known = {name: _tuples(value) for name, value in dict(fields).items() if value is not None}
        for name in ONE_OR_MORE:
            if name in known and not isinstance(known[name], tuple):
                known[name] = (known[name],)
        return known

    @model_validator(mode="after")
    def _check(self) -> Self:
        sampling = [name for name in SAMPLING if getattr(self, name) is not None]
        if self.do_sample is False and sampling:
            raise ValueError(
                f"{sampling[0]} = {getattr(self, sampling[0])} is for sampling: "
                "leave it out, or write do_sample = True"
            )
        if self.temperature == 0:
            raise ValueError(
                "temperature = 0 would divide by zero: write do_sample = False instead"
            )
        if self.samples and self.num_beams > 1:
            raise ValueError(
                f"num_beams = {self.num_beams} searches for the best text and "
                f"{sampling[0] if sampling else 'do_sample'} samples: write one of them"
            )
        if not self.samples and self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"num_return_sequences = {self.num_return_sequences} and num_beams = "
                f"{self.num_beams}: write do_sample = True, or at least as many beams"
            )
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens = {self.min_new_tokens} is more than max_new_tokens = "
                f"{self.max_new_tokens}: write less"
            )
        for name in ("forced_bos_token_id", "forced_eos_token_id"):
            value = getattr(self, name)
            forced = set(value) if isinstance(value, tuple) else {value}
            if forced and forced <= set(self.suppress_tokens):
                raise ValueError(
                    f"{name} = {min(forced)} is in suppress_tokens too: take it out of one of them"
                )
        if self.top_logprobs and (self.num_beams > 1 or not self.logprobs):
            raise ValueError(
                f"top_logprobs = {self.top_logprobs}: write logprobs = True and num_beams = 1, too"
            )
        for name in ("stop", "bad_words", "bad_words_ids"):
            if any(not item for item in getattr(self, name)):
                raise ValueError(f"{name} = {list(getattr(self, name))}: one of them is empty")
        return self

    @property
    def samples(self) -> bool:
        """Are tokens sampled?"""
        if self.do_sample is None:
            return any(getattr(self, name) is not None for name in SAMPLING)
        return self.do_sample

    @property
    def rules(self) -> Settings:
        """What decides how a token is chosen from its logits; texts of equal rules are processed
        together, whatever their seeds, lengths and stop strings are."""
        every_text = {"seed": None, "max_new_tokens": 1, "stop": (), "bad_words": ()}
        of_results = {"num_return_sequences": 1, "logprobs": False, "top_logprobs": 0}
        return self.model_copy(update=every_text | of_results)

    def room(self, prompt: int, most: int) -> int:
        """How many tokens may follow `prompt` tokens, if the model reads at most `most`.

        The last one is never read, so it may be one more.
        """
        return min(self.max_new_tokens, most + 1 - prompt)

    @property
    def looks_back(self) -> bool:
        """Does a setting depend on the tokens of the text so far?"""
        words = any(len(ids) > 1 for ids in self.bad_words_ids)
        return words or self.repetition_penalty != 1.0 or self.no_repeat_ngram_size > 0

    def check_fits(self, vocab: int, source: str = "") -> None:
        """ConfigError if a token id is not in the vocabulary, or no token is allowed."""
        named: dict[str, set[int | None]] = {
            "bad_words_ids": {token for word in self.bad_words_ids for token in word},
            "suppress_tokens": set(self.suppress_tokens),
            "eos_token_id": set(self.eos_token_id),
            "forced_eos_token_id": set(self.forced_eos_token_id),
            "forced_bos_token_id": {self.forced_bos_token_id} - {None},
            "decoder_start_token_id": {self.decoder_start_token_id} - {None},
        }
        for name, tokens in named.items():
            wrong = [i for i in tokens if i is not None and not 0 <= i < vocab]
            if wrong:
                raise ConfigError(
                    f"{source}{name}: {wrong[0]} is not a token id: "
                    f"write numbers from 0 to {vocab - 1}"
                )
        single = {ids[0] for ids in self.bad_words_ids if len(ids) == 1}
        if len((single - set(self.eos_token_id)) | set(self.suppress_tokens)) == vocab:
            raise ConfigError(
                f"{source}bad_words_ids and suppress_tokens forbid every token: allow one"
            )
        if self.num_beams * vocab > MOST_CHOICES:
            raise ConfigError(
                f"num_beams = {self.num_beams} with a vocabulary of {vocab} tokens is a choice "
                f"from {self.num_beams * vocab:,}: write at most {MOST_CHOICES // vocab} beams"
            )

    @property
    def kept(self) -> int:
        """Candidates of a beam step: enough for all beams, even if end tokens are among them."""
        return max(2, 1 + len(self.eos_token_id)) * self.num_beams


def settings_for(
    options: Mapping[str, Any],
    files: Mapping[str, bytes],
    config: Mapping[str, Any],
    ids: TokenIds,
    vocab: int,
) -> Settings:
    """The caller's options, over the special tokens of the folder's files, over the model's ids.

    Old folders have no generation_config.json: there config.json has them. What an option replaces
    is not checked against the vocabulary.
    """
    source = DEFAULTS if DEFAULTS in files else "config.json"
    stated = parse(files[DEFAULTS], DEFAULTS) if DEFAULTS in files else config
    known = {"eos_token_id": ids.end, "decoder_start_token_id": ids.start}
    known |= {name: stated[name] for name in FROM_FOLDER if stated.get(name) is not None}
    try:
        read(Settings, known, source)
        kept = {name: value for name, value in known.items() if name not in options}
        read(Settings, kept, source).check_fits(vocab, f"{source}: ")
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return read(Settings, {**known, **options}, "generate", hint=_meant)


def _meant(name: str) -> str:
    """What to write instead of an unknown setting."""
    other = next((ours for ours, others in ELSEWHERE.items() if name in others), None)
    near = difflib.get_close_matches(other or name, Settings.model_fields, 1)
    return f"did you mean {near[0]!r}?" if near else "no setting of generation has this name"


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
