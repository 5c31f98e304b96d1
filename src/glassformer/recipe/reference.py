"""Every field of a recipe with its meaning, from the schema; and a new recipe to begin with."""

from __future__ import annotations

import ast
import inspect
import io
import json
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel

from glassformer.errors import ConfigError
from glassformer.fields import PathField
from glassformer.objectives import OBJECTIVES
from glassformer.recipe.field_names import GROUPS
from glassformer.recipe.schema import Recipe
from glassformer.strict import Strict

WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}
DECIDED = ("model.family", "model.vocab_size", "model.ids")  # by objective and tokenizer


@dataclass(frozen=True)
class RecipeField:
    """One field: what may be written, its value if nothing is written, and what it means."""

    name: str  # GROUP.FIELD, or FIELD of no group
    values: str
    default: str  # as in TOML; empty if there is none
    meaning: str
    objectives: tuple[str, ...] = ()  # that read it; empty: all of them


def recipe_fields() -> list[RecipeField]:
    """All fields, group by group."""
    fields = [*_fields(Recipe, "")]
    preset = RecipeField("model.preset", "name", "", "a model of `glassformer presets`; the other "
                         "fields of [model] change its sizes and structure")  # fmt: skip
    for group, schema in GROUPS.items():
        fields += [preset] if group == "model" else []
        fields += _fields(schema, f"{group}.")
    return fields


def _fields(schema: type[BaseModel], prefix: str) -> Iterator[RecipeField]:
    meanings: dict[str, str] = {}
    for each in reversed(schema.__mro__):
        if issubclass(each, Strict):
            meanings |= _comments(each)
    for name, field in schema.model_fields.items():
        full, kind = prefix + name, field.annotation
        if full in (*GROUPS, *DECIDED):
            continue
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{full}.")
            continue
        values = _values(Annotated[kind, *field.metadata] if field.metadata else kind)
        readers = tuple(n for n, objective in OBJECTIVES.items() if full in objective.fields)
        yield RecipeField(full, values, _default(field), meanings.get(name, ""), readers)


def _comments(schema: type[BaseModel]) -> dict[str, str]:
    """The comment beside each field, or above it; one after a blank line is a heading."""
    code = textwrap.dedent(inspect.getsource(schema))
    lines = code.splitlines()
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(code).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = ast.parse(code).body
    assert isinstance(body, ast.ClassDef)  # noqa: S101
    meanings = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            first = node.lineno
            while lines[first - 2].lstrip().startswith("#"):
                first -= 1
            first = first if lines[first - 2].strip() else node.lineno
            numbers = range(first, (node.end_lineno or first) + 1)
            meanings[node.target.id] = " ".join(comments[n] for n in numbers if n in comments)
    return meanings


def _values(kind: Any) -> str:
    """A type in words: "bpe", "chars" … or: whole number, path, list of texts."""
    args = get_args(kind)
    if get_origin(kind) is Annotated:
        marks = [mark for mark in args[1:] if isinstance(mark, PathField)]
        if marks:
            return "model" if marks[0].of_model else "path"
        return _values(args[0])
    if get_origin(kind) is Literal:
        return ", ".join(json.dumps(arg) for arg in args)
    if get_origin(kind) is tuple:
        return f"list of {_values(args[0])}s"
    if args:
        return " or ".join(dict.fromkeys(_values(arg) for arg in args if arg is not NoneType))
    return WORDS.get(kind, "table")


def _default(field: Any) -> str:
    if field.is_required() or field.default is None:
        return ""
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return json.dumps(value, ensure_ascii=False)


def new_recipe(kind: str) -> str:
    """A recipe for this objective, as TOML with comments: most often only data.train changes."""
    if kind not in OBJECTIVES:
        raise ConfigError(f"{kind}: no such objective: write one of {', '.join(OBJECTIVES)}")
    objective = OBJECTIVES[kind]
    path, content = objective.example_data
    form = objective.short_form
    command = "pretrain" if form is None else "finetune MODEL"
    length = 128 if form is None else form.length
    text = f"""\
# glassformer {command} {kind}.toml
# Paths are relative to this file. `glassformer recipe fields` lists every field and its meaning.
name = "{kind}"

[data]
train = "{path}"  # {content}
valid_fraction = 0.1  # the share that is held out; or name a file: valid = "valid.tsv"
"""
    if form is None:
        text += f"""
[tokenizer]
vocab_size = 8000  # it is trained on the data; or name one: path = "FOLDER"

[model]
preset = "{objective.preset}"  # `glassformer presets` lists others
width = 128  # smaller than the preset: trains on a CPU
depth = 4
heads = 4
mlp_width = 512
"""
    text += f"""
[objective]
kind = "{kind}"
length = {length}  # the longest text, in tokens

[train]
epochs = 3.0  # or steps = 1000
micro_batch_tokens = {4096 if form is None else form.micro_batch_tokens}  # in one forward pass
learning_rate = {"1e-3" if form is None else "5e-5"}
schedule = "linear"
warmup = 0.1  # the share of all steps
min_lr_ratio = 0.0
weight_decay = 0.01
"""
    return text
