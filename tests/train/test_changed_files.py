"""A run notices that its text is not the one it began with, and names the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from commands import glassformer
from glassformer.data.fingerprints import fingerprints
from glassformer.errors import InputError
from tiny import pairs, text, write_recipe


@pytest.fixture
def begun(tmp_path: Path) -> tuple[object, ...]:
    """The words that go on with a run on a folder of two files."""
    recipe = write_recipe(tmp_path, data={"train": "texts"}, train={"steps": 2})
    (tmp_path / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "texts" / name).write_text(text(30, seed=ord(name[0])))
    words = ("pretrain", recipe, "--out", tmp_path / "run")
    glassformer(*words)
    return *words, "--train.steps", 4


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda f: (f / "b.txt").write_text("another text"), "texts/b.txt: this file has changed"),
        (lambda f: (f / "b.txt").unlink(), "b.txt: this file is gone"),
        (lambda f: (f / "aa.txt").write_text("more"), "texts/aa.txt: this file is new"),
    ],
    ids=["changed", "gone", "new"],
)
def test_a_changed_file_is_named(begun, tmp_path, change, said) -> None:
    before = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    change(tmp_path / "texts")
    end = glassformer(*begun, code=1)
    line = end.errors.splitlines()[-1]
    assert said in line and f"since {tmp_path / 'run' / 'data' / 'train'} was prepared" in line
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == before


def test_one_letter_at_the_same_size_is_noticed(begun, tmp_path) -> None:
    path = tmp_path / "texts" / "a.txt"
    path.write_text(path.read_text().replace("cat", "cow", 1))
    assert "a.txt: this file has changed" in glassformer(*begun, code=1).errors


def test_a_copy_is_the_same_text_wherever_it_lies(begun, tmp_path) -> None:
    (tmp_path / "texts").rename(tmp_path / "moved")
    (tmp_path / "moved" / "texts").mkdir()
    for name in ("a.txt", "b.txt"):
        data = (tmp_path / "moved" / name).read_bytes()
        (tmp_path / "moved" / "texts" / name).write_bytes(data)
        os.utime(tmp_path / "moved" / "texts" / name, (1, 1))
    glassformer(*begun, "--data", tmp_path / "moved")


def test_once_prepared_the_text_itself_is_not_needed(begun, tmp_path) -> None:
    (tmp_path / "texts").rename(tmp_path / "away")
    said = " ".join(glassformer(*begun).errors.split())
    assert "recipe's folder): the data that was prepared from it is used" in said


def test_parallel_files_are_watched(tmp_path) -> None:
    recipe = write_recipe(
        tmp_path, "translation", data={"train": "t", "languages": ["en", "up"]}, train={"steps": 2}
    )
    sides = zip(*(line.split("\t") for line in pairs().splitlines()), strict=True)
    for language, side in zip(("en", "up"), sides, strict=True):
        (tmp_path / f"t.{language}").write_text("".join(f"{line}\n" for line in side))
    words = ("pretrain", recipe, "--out", tmp_path / "run")
    glassformer(*words)
    glassformer(*words)
    (tmp_path / "t.up").write_text((tmp_path / "t.up").read_text().replace("CAT", "COW"))
    assert "t.up: this file has changed" in glassformer(*words, code=1).errors


def test_prepare_names_the_file_too(begun, tmp_path) -> None:
    words = ("data", "prepare", tmp_path / "texts", "--tokenizer", tmp_path / "run" / "tokenizer")
    words += ("--out", tmp_path / "store")
    glassformer(*words)
    glassformer(*words)
    with (tmp_path / "texts" / "b.txt").open("a") as file:
        file.write("more")
    assert "b.txt: this file has changed" in glassformer(*words, code=1).errors


def test_what_cannot_be_read_cannot_be_stamped(tmp_path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        fingerprints({"x": tmp_path})
