"""A recipe: everything that decides a run, in one TOML file. Reading it costs no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from glassformer.config import ModelConfig, Named, Strict, TaskConfig, TokenIds, read
from glassformer.errors import ConfigError
from glassformer.presets import PRESETS

Share = Field(ge=0.0, le=1.0)


class Data(Strict):
    train: str = Field(min_length=1)  # a file or folder, below the data root
    valid: str | None = None  # another one; if not given, a part of train is held out
    held_out: float = Field(default=0.05, ge=0.0, lt=1.0)  # that part
    document: Literal["blank", "file"] = "blank"  # what ends a document: a blank line, or the file
    field: str = "text"  # of JSONL, CSV and TSV
    languages: tuple[str, ...] = ()  # parallel files: ("en", "ru") reads train.en and train.ru


class Tokenize(Strict):
    path: str | None = None  # a folder with a tokenizer; if not given, one is trained on the data
    kind: Literal["bpe", "wordpiece", "unigram", "chars", "bytes"] | None = None
    vocab_size: PositiveInt = 8_000
    lowercase: bool = False


class Learn(Strict):
    kind: Literal["next_word", "masked", "masked_pairs", "translate"]
    length: PositiveInt  # the longest text, in tokens with all special ones
    mask_rate: float = Field(default=0.15, gt=0.0, lt=1.0)
    mask_unit: Literal["token", "word", "span"] = "token"
    sentence_order: bool = False  # masked_pairs: swap the texts, instead of taking a random one
    label_smoothing: float = Field(default=0.0, ge=0.0, lt=1.0)


class Train(Strict):
    steps: PositiveInt
    tokens: PositiveInt | Literal["auto"] = 4_096  # in a row: what goes through the model at once
    rows: PositiveInt = 1  # in a step, over all processes: more than fit are done one by one
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: Literal["constant", "linear", "cosine", "stable", "inverse_sqrt"] = "cosine"
    warmup: int = Field(default=100, ge=0)  # steps
    decay: float = Field(default=0.2, ge=0.0, le=1.0)  # stable: the last part that goes down
    final: float = Field(default=0.1, ge=0.0, le=1.0)  # what is left of the rate at the end
    optimiser: Literal["adamw", "muon"] = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.1, ge=0)
    clip: float = Field(default=1.0, gt=0)
    average: float = Field(default=0.0, ge=0.0, lt=1.0)  # moving average of weights; 0.999 is usual
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    recompute: bool = False  # forget activations and make them again: less memory, more time
    deterministic: bool = False
    workers: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    evaluate_every: PositiveInt = 250
    save_every: PositiveInt = 250
    keep: PositiveInt = 2  # checkpoints, beside the best one
    patience: PositiveInt | None = None  # evaluations without a better loss, then it stops
    spike: float = Field(default=10.0, gt=1.0)  # a gradient this many times its usual size is bad
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"


class Recipe(Named):
    name: str = Field(pattern=r"^[\w.-]+$")
    data: Data
    tokenizer: Tokenize = Tokenize()
    model: Mapping[str, Any] = {}  # a preset and fields of ModelConfig that differ from it
    objective: Learn
    train: Train
    start: str | None = None  # a model folder to go on from; then [model] and [tokenizer] are its

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.data.languages) not in (0, 2):
            raise ValueError(f"data.languages = {list(self.data.languages)}: write two, or none")
        if self.objective.kind == "translate" and self.objective.mask_unit != "token":
            raise ValueError("objective.mask_unit is for masked words")
        if self.start is not None and (self.model or self.tokenizer != Tokenize()):
            raise ValueError("start brings its own model and tokenizer: leave [model] and "
                             "[tokenizer] out")  # fmt: skip
        tokens = self.train.tokens
        if tokens != "auto" and tokens < self.objective.length:
            raise ValueError(
                f"train.tokens = {tokens} is less than objective.length = {self.objective.length}: "
                "a row must hold the longest text"
            )
        return self


FAMILY = {
    "next_word": ("decoder", "causal_lm", "gpt2"),
    "masked": ("encoder", "masked_lm", "bert-tiny"),
    "masked_pairs": ("encoder", "pretraining", "bert-tiny"),
    "translate": ("seq2seq", "seq2seq", "marian-base"),
}
# Sizes that follow from others, unless they are written.
FOLLOWING = (
    "head_width", "value_width", "key_heads", "embedding_width", "decoder_depth", "output_bias",
)  # fmt: skip


def read_recipe(path: Path, changes: Mapping[str, str] | None = None) -> Recipe:
    """The recipe of a file, with single fields replaced: {"train.steps": "100"}."""
    try:
        fields: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}: write the path of a recipe (TOML)") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: this is no TOML: {error}") from None
    for name, text in (changes or {}).items():
        _put(fields, name, text)
    return recipe_from(fields, str(path))


def recipe_from(fields: Mapping[str, Any], source: str) -> Recipe:
    return read(Recipe, _tuples(fields), source)


def model_config(recipe: Recipe, vocab_size: int, ids: TokenIds, source: str) -> ModelConfig:
    """What the recipe's [model] says, on the preset it names (or the objective's usual one)."""
    family, _, usual = FAMILY[recipe.objective.kind]
    fields = dict(recipe.model)
    name = fields.pop("preset", usual)
    if name not in PRESETS:
        raise ConfigError(f"{source}: model.preset = {name!r}: write one of {', '.join(PRESETS)}")
    preset = PRESETS[name].model
    if preset.family != family:
        raise ConfigError(
            f"{source}: model.preset = {name!r} is a {preset.family}, and objective.kind = "
            f"{recipe.objective.kind!r} needs a {family}"
        )
    known = preset.model_dump()
    known |= dict.fromkeys(n for n in FOLLOWING if known[n] == _following(n, known))
    known |= {"vocab_size": vocab_size, "ids": ids.model_dump()}
    known["max_length"] = recipe.objective.length
    for name, value in fields.items():
        group = known.get(name)
        known[name] = {**group, **value} if isinstance(group, dict) else value
    return read(ModelConfig, known, f"{source}: model")


def task_config(recipe: Recipe, config: ModelConfig) -> TaskConfig:
    _, kind, _ = FAMILY[recipe.objective.kind]
    marian = kind == "seq2seq" and config.position != "relative"  # T5's last map has no bias
    bias = marian or kind in ("masked_lm", "pretraining")
    return TaskConfig(kind=kind, bias=bias)  # type: ignore[arg-type]


def _following(size: str, known: Mapping[str, Any]) -> Any:
    return {
        "head_width": known["width"] // known["heads"],
        "value_width": known["head_width"],
        "key_heads": known["heads"],
        "embedding_width": known["width"],
        "decoder_depth": known["depth"],
        "output_bias": known["attention_bias"],
    }[size]


def _put(fields: dict[str, Any], name: str, text: str) -> None:
    *groups, last = name.split(".")
    for group in groups:
        fields = fields.setdefault(group, {})
        if not isinstance(fields, dict):
            raise ConfigError(f"--{name}: {group!r} is a value, not a group")
    try:
        fields[last] = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        fields[last] = text  # a word needs no quotes on the command line


def _tuples(fields: Any) -> Any:
    """TOML has lists; the config's are fixed."""
    if isinstance(fields, dict):
        return {name: _tuples(value) for name, value in fields.items()}
    return tuple(_tuples(each) for each in fields) if isinstance(fields, list) else fields
