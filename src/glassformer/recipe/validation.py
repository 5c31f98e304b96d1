"""Fields of a recipe that must agree with each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from glassformer.config import DOCUMENTS
from glassformer.errors import shown

if TYPE_CHECKING:
    from glassformer.recipe.schema import Recipe

MASKED = ("masked_lm", "masked_lm_nsp")
PLAIN = ("causal_lm", "masked_lm", "masked_lm_nsp")
LABELLED = ("classification", "token_classification", "question_answering", "sentence_embedding")
TABLES = ("classification", "sentence_embedding")  # their texts stand in columns
# How plain text is read: documents, or with data.text the columns of a labelled table.
OF_DOCUMENTS = ("data.field", "data.document", "data.more")
OF_TABLES = ("data.text_pair", "data.header", "data.separator", "data.skip_bad", "data.fold")
# Fields that nobody would read, unless another one has one of these values.
ONLY: tuple[tuple[str, str, tuple[str | None, ...]], ...] = (
    ("objective.mask_rate", "objective.kind", MASKED),
    ("objective.mask_unit", "objective.kind", MASKED),
    ("objective.sentence_order", "objective.kind", ("masked_lm_nsp",)),
    ("objective.short_pair_fraction", "objective.kind", ("masked_lm_nsp",)),
    ("objective.label_smoothing", "objective.kind", ("translation",)),
    ("train.bleu_sentences", "objective.kind", ("translation",)),
    ("data.languages", "objective.kind", ("translation",)),
    ("data.field", "objective.kind", PLAIN),
    ("data.document", "objective.kind", PLAIN),
    ("data.deduplicate", "objective.kind", PLAIN),
    ("data.more", "objective.kind", (*PLAIN, "translation")),
    *(
        (f"data.{name}", "objective.kind", (*TABLES, *PLAIN))
        for name in ("text", "text_pair", "header", "separator")
    ),
    ("data.label", "objective.kind", TABLES),
    ("data.label_prefix_separator", "objective.kind", TABLES),
    ("data.label_separator", "objective.kind", ("classification",)),
    ("data.tag", "objective.kind", ("token_classification",)),
    ("data.skip_bad", "objective.kind", (*LABELLED, *PLAIN)),
    ("data.fold", "objective.kind", (*LABELLED, *PLAIN)),
    ("data.fold_by", "objective.kind", ("classification",)),
    ("objective.class_weights", "objective.kind", ("classification", "token_classification")),
    ("objective.pool", "objective.kind", TABLES),
    ("objective.token_dropout", "objective.kind", ("classification",)),
    ("objective.overlap", "objective.kind", ("question_answering",)),
    ("objective.scale", "objective.kind", ("sentence_embedding",)),
    ("objective.symmetric", "objective.kind", ("sentence_embedding",)),
    ("objective.max_score", "objective.kind", ("sentence_embedding",)),
    ("tokenizer.vocab_size", "tokenizer.kind", (None, "bpe", "wordpiece", "unigram")),
    ("train.decay_fraction", "train.schedule", ("wsd",)),
    ("train.min_lr_ratio", "train.schedule", ("linear", "cosine", "wsd")),
)


def check_agreement(recipe: Recipe) -> None:
    """A field that nobody would read, or that two others exclude, is a mistake."""
    for name, decides, values in ONLY:
        _check_read(recipe, name, decides, values)
    if recipe.objective.kind in PLAIN:
        _check_plain(recipe)
    if (
        recipe.train.cuda_graphs and recipe.train.activation_checkpointing
    ):  # chance is drawn again: not to be recorded
        raise ValueError(
            "train.activation_checkpointing = true with train.cuda_graphs = true: write false for "
            "one of them"
        )
    _check_labelled(recipe)
    if recipe.init_from is not None:
        _check_start(recipe)
    elif recipe.random_init:
        raise ValueError("random_init = true: write the model whose network it is in init_from")


def _check_start(recipe: Recipe) -> None:
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


def _check_plain(recipe: Recipe) -> None:
    text = recipe.data.text
    for name in OF_TABLES if text is None else OF_DOCUMENTS:
        if _is_usual(recipe, name):
            continue
        value = shown(_at(recipe, name))
        if text is not None:
            raise ValueError(f"{name} = {value}: data.text = {text!r} reads a table: leave one out")
        raise ValueError(
            f"{name} = {value} is for a table: write in data.text the column to read, or leave "
            f"{name} out"
        )


def _check_labelled(recipe: Recipe) -> None:
    data, learn = recipe.data, recipe.objective
    if data.label_separator is not None and learn.class_weights:
        raise ValueError(
            "objective.class_weights weighs classes that exclude each other: leave it out, or "
            "data.label_separator"
        )
    if learn.token_dropout and learn.pool not in DOCUMENTS:
        raise ValueError(
            f"objective.token_dropout = {learn.token_dropout} is for objective.pool = 'words' or "
            f"'hierarchy', and here it is {learn.pool!r}: leave it out"
        )
    check_pool(recipe, learn.pool)
    if data.fold is None:
        return
    parts = re.fullmatch(r"(\d{1,9})/(\d{1,9})", data.fold, re.ASCII)
    number, count = map(int, parts.groups()) if parts else (0, 0)
    if not 1 <= number <= count or count < 2:
        raise ValueError(f"data.fold = {data.fold!r}: write 1/10 to 10/10, of any number from 2 on")
    if data.valid is not None:
        raise ValueError(f"data.fold = {data.fold!r}: with data.valid nothing is held out")


def check_pool(recipe: Recipe, pool: str | None) -> None:
    """Attention over words reads documents, of one text and one label each."""
    if pool not in DOCUMENTS:
        return
    data, learn = recipe.data, recipe.objective
    wrong = {
        "objective.kind": learn.kind == "sentence_embedding" and "'classification'",
        "data.label_separator": data.label_separator is not None and "one label a text",
        "data.text_pair": data.text_pair is not None and "one text",
        "train.compile": recipe.train.compile and "false: documents are of all lengths",
        "train.cuda_graphs": recipe.train.cuda_graphs and "false: documents are of all lengths",
    }
    whose = "" if learn.pool else f", as {recipe.init_from} has it"
    for name, write in wrong.items():
        if write:
            raise ValueError(
                f"{name} = {_at(recipe, name)!r} with objective.pool = {pool!r}{whose}: "
                f"write {write}"
            )


def _check_read(recipe: Recipe, name: str, decides: str, values: tuple[str | None, ...]) -> None:
    """A field that has another value than its usual one must have a reader."""
    if _is_usual(recipe, name) or _at(recipe, decides) in values:
        return
    known = " or ".join(repr(each) for each in values if each is not None)
    raise ValueError(
        f"{name} = {shown(_at(recipe, name))} is for {decides} = {known}, and here it is "
        f"{_at(recipe, decides)!r}: leave {name} out"
    )


def _is_usual(recipe: Recipe, name: str) -> bool:
    group, field = name.split(".")
    return bool(_at(recipe, name) == type(getattr(recipe, group)).model_fields[field].default)


def _at(recipe: Recipe, name: str) -> Any:
    group, field = name.split(".")
    return getattr(getattr(recipe, group), field)
