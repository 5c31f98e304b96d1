"""The texts of a labelled table, read without their labels: what labels hold out, they hold out."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import glassformer
from glassformer.data.label_alignment import texts_of
from glassformer.data.run_paths import RunPaths
from glassformer.errors import ConfigError
from glassformer.objectives import objective_of
from glassformer.recipe.schema import read_recipe, recipe_from
from tiny import sentences, write_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
QUESTIONS = [f"{'ABC'[i % 3]}:x {line}" for i, line in enumerate(sentences(90))]
TREC = {"train": "train.txt", "header": ["label", "text"], "separator": " ", "text": "text"}

Rows = list[tuple[str, str, str]]


def part_of(folder: Path, kind: str, part: str, **data: Any) -> Counter[str]:
    """All texts of one part; none, if it says so."""
    fields = {
        "name": "t", "data": data, "objective": {"kind": kind, "length": 32}, "train": {"steps": 1},
    }  # fmt: skip
    recipe = recipe_from(fields, {}, "t.toml")
    place = replace(RunPaths(folder, folder / "run", "t.toml"), labels=("a", "b"))
    try:
        documents = objective_of(recipe).read(recipe, place, part)
        found = [text for each in documents for text in texts_of(each)]
    except ConfigError as error:
        assert "there is nothing to" in str(error)
        return Counter()
    return Counter(found)


# reading


@pytest.mark.parametrize("kind", ["causal_lm", "masked_lm", "masked_lm_nsp"])
@pytest.mark.parametrize(
    ("name", "text", "how"),
    [
        ("t.csv", 'label,text\na,"One, ""two""\nlines."\nb,Three.\n', {}),
        ("t.tsv", 'label\ttext\na\tOne, "two"\nb\tThree.\n', {}),
        ("t.txt", "a:x One, two\nb:y Three.\n", {"header": ("label", "text"), "separator": " "}),
        ("t.jsonl", '{"text": "One"}\n{"text": "Three.", "label": 2}\n', {}),
    ],
)
def test_the_column_is_read_and_nothing_else(
    name: str, text: str, how: Any, kind: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    first = {"t.csv": 'One, "two"\nlines.', "t.tsv": 'One, "two"', "t.txt": "One, two"}
    found = part_of(tmp_path, kind, "train", train=name, text="text", valid_fraction=0.0, **how)
    assert found == Counter([first.get(name, "One"), "Three."])
    found = part_of(tmp_path, kind, "valid", train="no", valid=name, text="text", **how)
    assert found == Counter([first.get(name, "One"), "Three."])


def test_pairs_are_two_texts_each(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("one\tlabel\ttwo\na\t0\tb\nc\t1\td\n")
    how = {"train": "t.tsv", "text": "one", "text_pair": "two", "valid_fraction": 0.0}
    assert part_of(tmp_path, "masked_lm", "train", **how) == Counter("abcd")


# what is wrong


def last_line(*words: object) -> str:
    return str(glassformer(*words, code=1).errors.splitlines()[-1])


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "masked_lm", data={"train": "t.tsv", "text": "texts"})
    (tmp_path / "t.tsv").write_text("text\tlabel\nOne.\t1\n")
    why = f"{tmp_path / 't.tsv'}: line 1: there is no column 'texts': it has 'text', 'label'"
    assert last_line("pretrain", recipe, "--out", tmp_path / "run") == f"glassformer: {why}"


def test_bad_rows_are_told(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "masked_lm", data=TREC)
    lines = [line.encode() for line in QUESTIONS]
    (tmp_path / "train.txt").write_bytes(b"\n".join([*lines[:7], b"A:x \xf0", b"alone", *lines]))
    words = ("pretrain", recipe, "--out", tmp_path / "run", "--dry-run", "--json")
    line = last_line(*words)
    assert f"{tmp_path / 'train.txt'}: line 8, byte" in line and "(2 bad rows: --skip-bad" in line
    said = glassformer(*words, "--skip-bad")
    assert "2 bad rows skipped" in " ".join(said.errors.split())
    documents = [part["documents"] for part in json.loads(said)["data"].values()]
    assert len(documents) == 2 and sum(documents) == 97


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"header": ["a"]}, "data.header = ('a',) is for a table: write in data.text the column"),
        ({"separator": " "}, "data.separator = ' ' is for a table"),
        ({"text_pair": "b"}, "data.text_pair = 'b' is for a table"),
        ({"fold": "1/3"}, "data.fold = '1/3' is for a table"),
        ({"text": "a", "fold": "4/3"}, "data.fold = '4/3': write one of 1/10"),
        ({"text": "a", "label": "b"}, "data.label = 'b' is for objective.kind = 'classification'"),
        ({"text": "a", "field": "b"}, "data.field = 'b': data.text = 'a' reads a table: leave one"),
        ({"text": "a", "document": "line"}, "data.document = 'line': data.text = 'a' reads a tab"),
        ({"text": "a", "more": [{"train": "b"}]}, "data.text = 'a' reads a table: leave one out"),
    ],
)
def test_fields_that_exclude_each_other(data: Any, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_recipe(write_recipe(tmp_path, "masked_lm", data=data))
    line = str(caught.value)
    assert line.startswith(f"{tmp_path / 'recipe.toml'}: data.") and why in line
    assert "\n" not in line


# the split

TEXTS = st.text("aB ß\u00a0\u2003", min_size=1, max_size=4).filter(str.strip)
TABLES = st.lists(st.tuples(TEXTS, TEXTS, st.sampled_from("ab")), min_size=1, max_size=12)
HELD = st.one_of(
    st.builds(lambda share: {"valid_fraction": share}, st.floats(0.01, 0.99)),
    st.integers(2, 5).flatmap(
        lambda n: st.builds(lambda k: {"fold": f"{k}/{n}"}, st.integers(1, n))
    ),
)


def write_table(folder: Path, rows: Rows) -> None:
    whole = "".join("\t".join(row) + "\n" for row in rows)
    (folder / "t.tsv").write_text(f"one\ttwo\tlabel\n{whole}", newline="")


@given(TABLES, HELD, st.sampled_from([None, "two"]))
def test_both_ways_of_reading_hold_out_the_same(
    rows: Rows, held: dict[str, Any], second: str | None
) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_table(Path(name), rows)
        how = {"train": "t.tsv", "text": "one", "text_pair": second, **held}
        for part in ("train", "valid"):
            marked = part_of(Path(name), "classification", part, label="label", **how)
            assert part_of(Path(name), "masked_lm", part, **how) == marked


def test_another_rule_would_be_seen(tmp_path: Path) -> None:
    """By the hash of the text as it stands, as plain text is split."""
    write_table(tmp_path, [(f"Text {i}", "x", "ab"[i % 2]) for i in range(40)])
    how = {"train": "t.tsv", "valid_fraction": 0.3}
    marked = part_of(tmp_path, "classification", "valid", text="one", label="label", **how)
    assert part_of(tmp_path, "masked_lm", "valid", text="one", **how) == marked
    assert part_of(tmp_path, "masked_lm", "valid", field="one", **how) != marked


# the recipes of TREC


@pytest.mark.parametrize(("words", "classes"), [("words", "-scratch"), ("adapt", "")])
def test_both_recipes_hold_out_the_same(words: str, classes: str) -> None:
    first, then = (read_recipe(RECIPES / f"trec6{name}.toml") for name in (f"-{words}", classes))
    assert first.data == then.data.model_copy(
        update={"label": None, "label_prefix_separator": None}
    )


def test_words_first_then_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the head of the recipe says it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec/train.txt").write_text("\n".join(QUESTIONS))
    short = ("--data", tmp_path, "--train.epochs", "1")
    lines = (RECIPES / "trec6-scratch.toml").read_text().splitlines()
    commands = [line.split()[2:] for line in lines if line.startswith("#   glassformer ")][:2]
    for command, *rest in commands:
        given = [RECIPES.parent / word if word.startswith("recipes/") else word for word in rest]
        glassformer(command, *given, *short)
    assert (tmp_path / "runs/trec6-scratch/model/config.json").is_file()
