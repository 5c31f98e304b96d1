"""How to write: the settings of one call, under the names that users of transformers know.

This file knows no tensors: a wrong setting must not cost the import of torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from glassformer.config import Named, TokenIds, read
from glassformer.errors import CheckpointError, ConfigError
from glassformer.strictjson import parse

MOST_CHOICES = 10_000_000  # what one text's beams may choose from in a step
DEFAULTS = "generation_config.json"
# What a folder says about its tokens is part of the model. How to search (num_beams, temperature,
# lengths, penalties) is the caller's to say: a folder's wishes about that are not followed.
OF_THE_MODEL = (
    "eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id",
    "bad_words_ids", "suppress_tokens",
)  # fmt: skip
ONE_OR_MORE = ("eos_token_id", "forced_eos_token_id", "stop", "bad_words")
SAMPLING = ("temperature", "top_k", "top_p", "min_p")


class Settings(Named):
    max_new_tokens: PositiveInt = 20
    min_new_tokens: int = Field(default=0, ge=0)  # no end token before
    stop: tuple[str, ...] = ()  # a text that comes to one of these is done

    # one after the other: the best, or (do_sample) by chance
    do_sample: bool | None = None  # not given: yes, if one of the next four is
    temperature: float | None = Field(default=None, ge=0)  # below 1: the likely more often
    top_k: int | None = Field(default=None, ge=0)  # only the k best; 0 is all
    top_p: float | None = Field(default=None, gt=0, le=1)  # the best that make up p together
    min_p: float | None = Field(default=None, ge=0, le=1)  # at least p times as likely as the best
    seed: int = Field(default=0, ge=0, lt=1 << 63)  # the same seed, the same text
    num_return_sequences: PositiveInt = 1  # samples, or the best of the beams

    # several at once
    num_beams: PositiveInt = 1
    length_penalty: float = 1.0  # a score is divided by length ** this: above 0 favours the long
    early_stopping: Literal[True, False, "never"] = False  # True: when num_beams texts are done

    # what may be written
    repetition_penalty: float = Field(default=1.0, gt=0)
    no_repeat_ngram_size: int = Field(default=0, ge=0)  # 3: no three tokens twice
    bad_words: tuple[str, ...] = ()  # the same as texts
    bad_words_ids: tuple[tuple[int, ...], ...] = ()  # forbidden runs of tokens
    suppress_tokens: tuple[int, ...] = ()  # forbidden tokens
    forced_bos_token_id: int | None = None  # the first token, after one that was given
    forced_eos_token_id: tuple[int, ...] = ()  # the last, where max_new_tokens ends the text
    eos_token_id: tuple[int, ...] = ()  # ends a text
    decoder_start_token_id: int | None = None  # what a translator's decoder begins with

    logprobs: bool = False  # of each choice, as the model itself saw it before any other setting

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        """Lists are tuples, one is a list of one, and None is what was not given."""
        known = {name: _tuples(value) for name, value in dict(fields).items() if value is not None}
        for name in ONE_OR_MORE:
            if name in known and not isinstance(known[name], tuple):
                known[name] = (known[name],)
        return known

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in SAMPLING if getattr(self, name) is not None]
        if self.do_sample is False and given:
            raise ValueError(
                f"{given[0]} = {getattr(self, given[0])} is for sampling: "
                "leave it out, or write do_sample = True"
            )
        if self.temperature == 0:
            raise ValueError("temperature = 0 leaves no chance: write do_sample = False instead")
        if self.samples and self.num_beams > 1:
            raise ValueError(
                f"num_beams = {self.num_beams} looks for the best text and "
                f"{given[0] if given else 'do_sample'} draws by chance: write one of them"
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
        for name in ("stop", "bad_words", "bad_words_ids"):
            if any(not each for each in getattr(self, name)):
                raise ValueError(f"{name} = {list(getattr(self, name))}: one of them is empty")
        return self

    @property
    def samples(self) -> bool:
        if self.do_sample is None:
            return any(getattr(self, name) is not None for name in SAMPLING)
        return self.do_sample

    def room(self, prompt: int, most: int) -> int:
        """How many tokens may be written after so many, where the model reads at most so many.

        The last one is never read: it needs no place.
        """
        return min(self.max_new_tokens, most + 1 - prompt)

    @property
    def looks_back(self) -> bool:
        """Do the choices depend on more than the model's last words?"""
        words = any(len(each) > 1 for each in self.bad_words_ids)
        return words or self.repetition_penalty != 1.0 or self.no_repeat_ngram_size > 0

    def check_fits(self, vocab: int) -> None:
        """Every token that is named is one of the model's, and there are enough to choose from."""
        named: dict[str, set[int | None]] = {
            "bad_words_ids": {each for word in self.bad_words_ids for each in word},
            "suppress_tokens": set(self.suppress_tokens),
            "eos_token_id": set(self.eos_token_id),
            "forced_eos_token_id": set(self.forced_eos_token_id),
            "forced_bos_token_id": {self.forced_bos_token_id} - {None},
            "decoder_start_token_id": {self.decoder_start_token_id} - {None},
        }
        for name, tokens in named.items():
            wrong = [each for each in tokens if each is not None and not 0 <= each < vocab]
            if wrong:
                raise ConfigError(
                    f"{name}: {wrong[0]} is no token: write numbers from 0 to {vocab - 1}"
                )
        single = {each[0] for each in self.bad_words_ids if len(each) == 1}
        if len((single - set(self.eos_token_id)) | set(self.suppress_tokens)) == vocab:
            raise ConfigError("bad_words_ids and suppress_tokens forbid every token: allow one")
        if self.num_beams * vocab > MOST_CHOICES:
            raise ConfigError(
                f"num_beams = {self.num_beams} with a vocabulary of {vocab} tokens is a choice "
                f"from {self.num_beams * vocab:,}: write at most {MOST_CHOICES // vocab} beams"
            )

    @property
    def kept(self) -> int:
        """Candidates of a beam step: were every end token among them, enough would go on."""
        return max(2, 1 + len(self.eos_token_id)) * self.num_beams


def settings_for(
    given: Mapping[str, Any], files: Mapping[str, bytes], config: Mapping[str, Any], ids: TokenIds
) -> Settings:
    """What the caller gives, over what a folder's files say of its tokens, over the model's ids.

    Old folders have no generation_config.json: there config.json says it.
    """
    source = DEFAULTS if DEFAULTS in files else "config.json"
    stated = parse(files[DEFAULTS], DEFAULTS) if DEFAULTS in files else config
    known = {"eos_token_id": ids.end, "decoder_start_token_id": ids.start}
    known |= {name: stated[name] for name in OF_THE_MODEL if stated.get(name) is not None}
    try:
        read(Settings, known, source)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return read(Settings, {**known, **given}, "generate")


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value
