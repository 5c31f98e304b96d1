"""A field that nobody would read is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import ConfigError
from glassformer.objectives import OBJECTIVES
from glassformer.objectives.plain_text import OF_TABLES, PlainTextObjective
from glassformer.recipe.schema import Recipe, read_recipe
from glassformer.recipe.toml import as_toml, root_of
from glassformer.recipe.validation import ONLY, _value
from tiny import write_recipe

OTHER: dict[str, Any] = {
    "objective.mask_rate": 0.3,
    "objective.mask_unit": "word",
    "objective.sentence_order": True,
    "objective.short_pair_fraction": 0.5,
    "objective.label_smoothing": 0.1,
    "train.bleu_sentences": 5,
    "data.languages": ["en", "ru"],
    "data.field": "body",
    "data.document": "file",
    "data.deduplicate": True,
    "data.more": [{"train": "text.txt", "document": "line"}],
    "data.share": 1.0,
    "data.text": "sentence",
    "data.text_pair": "other",
    "data.label": "class",
    "data.header": ["a", "b"],
    "data.separator": " ",
    "data.label_prefix_separator": ":",
    "data.label_separator": "|",
    "data.tag": "xpos",
    "objective.regression": True,
    "data.fold": "3/10",
    "data.fold_by": "name",
    "objective.class_weights": "balanced",
    "objective.pool": "mean",
    "objective.token_dropout": 0.5,
    "objective.overlap": 3,
    "objective.scale": 10.0,
    "objective.symmetric": True,
    "objective.max_score": 5.0,
    "tokenizer.vocab_size": 500,
    "train.decay_fraction": 0.5,
    "train.min_lr_ratio": 0.0,
}
OTHERS = {
    "objective.kind": [
        "causal_lm",
        "masked_lm",
        "masked_lm_nsp",
        "translation",
        "classification",
        "token_classification",
        "question_answering",
        "sentence_embedding",
    ],
    "tokenizer.kind": ["chars", "bytes"],
    "train.schedule": ["constant", "linear", "cosine", "wsd", "inverse_sqrt"],
}


def read(folder: Path, **groups: dict[str, Any]) -> Recipe:
    return read_recipe(write_recipe(folder, groups["objective"].pop("kind", "masked_lm"), **groups))


def settings(*given: tuple[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {"objective": {}}
    for name, value in given:
        group, field = name.split(".")
        found.setdefault(group, {})[field] = value
    return found


def test_each_of_them_is_tried() -> None:
    assert {name for name, _, _ in ONLY} == OTHER.keys()


@pytest.mark.parametrize(("name", "decides", "values"), ONLY, ids=lambda value: str(value))
def test_a_field_without_a_reader_is_refused(
    name: str, decides: str, values: tuple[str, ...], tmp_path: Path
) -> None:
    readers = [value for value in values if value is not None]
    for reader in readers:
        more = [("objective.pool", "words")] if name == "objective.token_dropout" else []
        if name in OF_TABLES and isinstance(OBJECTIVES.get(reader), PlainTextObjective):
            more = [("data.text", "sentence")]
        recipe = read(tmp_path, **settings((decides, reader), (name, OTHER[name]), *more))
        assert _value(recipe, decides) == reader
    refusing = [other for other in OTHERS[decides] if other not in readers]
    assert refusing
    for other in refusing:
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, **settings((decides, other), (name, OTHER[name])))
        line = str(caught.value)
        assert line.startswith(f"{tmp_path / 'recipe.toml'}: {name} = ")
        assert f"is for {decides} = {readers[0]!r}" in line
        assert line.endswith(f"and here it is {other!r}: leave {name} out")


@pytest.mark.parametrize("kind", ["translation", "masked_lm_nsp"])
def test_pairs_have_no_windows(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"on_truncate = 'window': a pair cannot be read in par"):
        read(tmp_path, objective={"kind": kind, "on_truncate": "window"})


def test_a_recipe_is_written_as_it_was_read(tmp_path: Path) -> None:
    """Whatever its texts hold; all fields are there, and where epochs are wanted no steps."""
    name = 'a "quoted" \\ name\x7f\n\u00e9\U0001f600 = # [x]'
    path = write_recipe(tmp_path, "classification", train={"betas": [0.9, 0.999]})
    path.write_text(path.read_text() + "\n[model.dropout]\nembedding = 0.25\nmlp = 1e-7\n")
    for changes in ({}, {"train.epochs": "2.5"}):
        recipe = read_recipe(path, {**changes, "root": "/a b"})
        data = recipe.data.model_copy(
            update={"label_prefix_separator": name, "header": (name, "b")}
        )
        recipe = recipe.model_copy(update={"data": data})
        (tmp_path / "again.toml").write_text(as_toml(recipe))
        again = read_recipe(tmp_path / "again.toml")
        assert again == recipe and again.model["dropout"] == {"embedding": 0.25, "mlp": 1e-7}
        assert again.data.header == (name, "b") and again.root == "/a b"


@pytest.mark.parametrize(("text", "value"), [(".3", 0.3), ("3.", 3.0), ("+.5E-1", 0.05), ("1", 1)])
def test_a_number_may_leave_out_its_nought(text: str, value: float, tmp_path: Path) -> None:
    changes = {"train.weight_decay": text}
    assert read_recipe(write_recipe(tmp_path), changes).train.weight_decay == value
    changes = {"name": "3.e-x"}  # but not a word that begins like one
    assert read_recipe(write_recipe(tmp_path), changes).name == "3.e-x"


def test_the_root_of_a_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line says it first, then the recipe (beside which it lies), then the machine."""
    path = write_recipe(tmp_path / "r")
    bare = read_recipe(path)
    other = path.with_name("rooted.toml")
    other.write_text(f'root = "texts"\n{path.read_text()}')
    rooted = read_recipe(other)
    monkeypatch.setenv("GLASSFORMER_DATA", "/machine")
    assert root_of(bare, None, path) == Path("/machine")
    assert root_of(rooted, None, path) == tmp_path / "r/texts"
    assert root_of(rooted, Path("/said"), path) == Path("/said")
    monkeypatch.delenv("GLASSFORMER_DATA")
    assert root_of(bare, None, path) == tmp_path / "r"


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ({"objective": {"token_dropout": 0.5}}, "is for objective.pool = 'words' or 'hierarchy'"),
        (
            {"objective": {"kind": "sentence_embedding", "pool": "words"}},
            "write 'first', 'last' or 'mean'",
        ),
        ({"objective": {"pool": "words"}, "data": {"text_pair": "b"}}, "write one text"),
        ({"objective": {"pool": "hierarchy"}, "train": {"compile": True}}, "write false"),
        ({"objective": {"pool": "hierarchy"}, "train": {"cuda_graphs": True}}, "write false"),
    ],
)
def test_documents_are_not_for_all(groups: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, **{**groups, "objective": {"kind": "classification", **groups["objective"]}})
    assert why in str(caught.value)


def test_what_is_recorded_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"checkpointing = true with train\.cuda_graphs = true: write false"
    ):
        read(tmp_path, objective={}, train={"cuda_graphs": True, "activation_checkpointing": True})
