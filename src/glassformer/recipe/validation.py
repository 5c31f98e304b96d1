"""Fields of a recipe that must agree with each other. Every check raises ValueError."""

from __future__ import annotations

import re
from typing import Any

from glassformer.errors import shown
from glassformer.fields import RecipeFields
from glassformer.objectives import OBJECTIVES

# Fields that are read only where another one has one of these values.
ONLY: tuple[tuple[str, str, tuple[str | None, ...]], ...] = (
    *(
        (field, "objective.kind", tuple(n for n, o in OBJECTIVES.items() if field in o.fields))
        for field in dict.fromkeys(f for o in OBJECTIVES.values() for f in o.fields)
    ),
    ("tokenizer.vocab_size", "tokenizer.kind", (None, "bpe", "wordpiece", "unigram")),
    ("train.decay_fraction", "train.schedule", ("wsd",)),
    ("train.min_lr_ratio", "train.schedule", ("linear", "cosine", "wsd")),
)


def check_agreement(recipe: RecipeFields) -> None:
    """A field that nothing reads, or that contradicts another one, is a mistake."""
    kind = recipe.objective.kind
    if kind not in OBJECTIVES:
        raise ValueError(f"objective.kind = {kind!r}: write one of {', '.join(OBJECTIVES)}")
    for name, decides, values in ONLY:
        _check_is_read(recipe, name, decides, values)
    OBJECTIVES[kind].check(recipe)
    _check_fold(recipe)
    _check_objective(recipe)
    _check_train(recipe)
    if recipe.adapter is not None:
        _check_adapter(recipe)
    if recipe.init_from is not None:
        _check_init_from(recipe)
    elif recipe.random_init:
        raise ValueError("random_init = true needs init_from: the model whose architecture to use")


def _check_objective(recipe: RecipeFields) -> None:
    objective = OBJECTIVES[recipe.objective.kind]
    if recipe.objective.on_truncate == "window" and not objective.reads_windows:
        raise ValueError(
            "objective.on_truncate = 'window': a pair cannot be read in parts: write 'warn' "
            "(those that do not fit are skipped and counted) or 'error'"
        )
    known, by = ("loss", *objective.best_by), recipe.train.best_by
    if by is not None and by not in known:
        raise ValueError(f"train.best_by = {by!r}: write one of {', '.join(known)}")


def _check_train(recipe: RecipeFields) -> None:
    train, length = recipe.train, recipe.objective.length
    if train.cuda_graphs and train.activation_checkpointing:
        # Checkpointing draws dropout again, which a captured graph cannot.
        raise ValueError(
            "train.activation_checkpointing = true with train.cuda_graphs = true: write false for "
            "one of them"
        )
    if train.steps > 0 and train.epochs is not None:
        raise ValueError(
            f"train.steps = {train.steps} and train.epochs = {train.epochs:g}: write one of them"
        )
    if not train.steps and train.epochs is None:
        raise ValueError("the length of the run is missing: write train.steps or train.epochs")
    tokens = train.micro_batch_tokens
    if tokens != "auto" and tokens < length:
        raise ValueError(
            f"train.micro_batch_tokens = {tokens} is less than objective.length = {length}: a "
            f"micro-batch must hold the longest text: write at least {length}"
        )


def _check_init_from(recipe: RecipeFields) -> None:
    if recipe.tokenizer != type(recipe.tokenizer)():
        raise ValueError(
            f"init_from = {recipe.init_from!r} brings its own tokenizer: leave [tokenizer] out"
        )
    for name, value in recipe.model.items():
        if name != "dropout":
            raise ValueError(
                f"model.{name} = {shown(value)}: init_from = {recipe.init_from!r} brings its own "
                f"model: leave model.{name} out (only model.dropout can be changed)"
            )


def _check_adapter(recipe: RecipeFields) -> None:
    if recipe.init_from is None or recipe.random_init:
        raise ValueError("[adapter] needs init_from, the model that stays as it is")
    if recipe.train.freeze:
        raise ValueError(
            f"train.freeze = {recipe.train.freeze}: with [adapter] the model does not change: "
            "leave it out"
        )
    if recipe.train.optimiser != "adamw":
        raise ValueError(
            f"train.optimiser = {recipe.train.optimiser!r} is for whole matrices: with [adapter] "
            "write 'adamw'"
        )


def _check_fold(recipe: RecipeFields) -> None:
    data = recipe.data
    if data.fold is None:
        return
    parts = re.fullmatch(r"(\d{1,9})/(\d{1,9})", data.fold, re.ASCII)
    number, count = map(int, parts.groups()) if parts else (0, 0)
    if not 1 <= number <= count or count < 2:
        raise ValueError(
            f"data.fold = {data.fold!r}: write one of 1/10 to 10/10, or of any number from 2 on"
        )
    if data.valid is not None:
        raise ValueError(
            f"data.fold = {data.fold!r} holds out a part of data.train, and data.valid names other "
            "data: leave one of them out"
        )


def _check_is_read(
    recipe: RecipeFields, name: str, decides: str, values: tuple[str | None, ...]
) -> None:
    """A field with another value than its default must be read by something."""
    if _is_default(recipe, name) or _value(recipe, decides) in values:
        return
    known = " or ".join(repr(value) for value in values if value is not None)
    raise ValueError(
        f"{name} = {shown(_value(recipe, name))} is for {decides} = {known}, and here it is "
        f"{_value(recipe, decides)!r}: leave {name} out"
    )


def _is_default(recipe: RecipeFields, name: str) -> bool:
    group, field = name.split(".")
    return bool(_value(recipe, name) == type(getattr(recipe, group)).model_fields[field].default)


def _value(recipe: RecipeFields, name: str) -> Any:
    group, field = name.split(".")
    return getattr(getattr(recipe, group), field)
