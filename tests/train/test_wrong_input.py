"""Wrong input costs one line that says what and where, and nothing that was there before."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import live, result, write_recipe

Change = Callable[[Path], list[object]]


def text(data: bytes, name: str = "text.txt") -> Change:
    """Another training file."""

    def change(folder: Path) -> list[object]:
        (folder / name).write_bytes(data)
        return ["--data.train", name]

    return change


def flags(*words: object) -> Change:
    return lambda folder: list(words)


def other_recipe(data: str) -> Change:
    def change(folder: Path) -> list[object]:
        (folder / "recipe.toml").write_text(data)
        return []

    return change


def in_the_way(folder: Path) -> list[object]:
    (folder / "run").write_text("a file")
    return []


def in_a_loop(folder: Path) -> list[object]:
    (folder / "run").symlink_to(folder / "run")
    return []


def foreign_tokenizer(folder: Path) -> list[object]:
    """One without [MASK], for an objective that needs it."""
    from glassformer.text.training import tokenizer_files, train_tokenizer

    (folder / "words").mkdir()
    made = train_tokenizer(["abc " * 9], "bytes", purpose="decoder")
    for name, data in tokenizer_files(made).items():
        (folder / "words" / name).write_bytes(data)
    flags = ["--tokenizer.path", "words", "--objective.kind", "masked", "--model.preset"]
    return [*flags, "bert-tiny"]


LINES = b"".join(json.dumps({"text": f"line {i}."}).encode() + b"\n" for i in range(6))
CASES: dict[str, tuple[Change, int, str]] = {
    "no file": (flags("--data.train", "none.txt"), 1, "none.txt: no such file"),
    "empty file": (text(b""), 1, "text.txt: there is no text in it"),
    "blank file": (text(b"\n \n\n"), 1, "text.txt: there is no text in it"),
    "binary file": (text(b"ab\0cd" * 9), 1, "line 1 holds a NUL byte"),
    "not UTF-8": (text(b"good\nbad \xff\n"), 1, "text.txt: line 2, byte 10"),
    "cut .gz": (text(gzip.compress(LINES)[:40], "t.txt.gz"), 1, "t.txt.gz: cannot be read"),
    "broken JSONL": (text(LINES + b'{"text": "a\n', "t.jsonl"), 1, "t.jsonl: line 7"),
    "JSONL without text": (text(LINES + b'{"txet": "a"}\n', "t.jsonl"), 1, "t.jsonl: line 7"),
    "no languages": (flags("--data.languages", '["en"]'), 2, "data.languages = ['en']: write two"),
    "no recipe": (lambda folder: (folder / "recipe.toml").unlink() or [], 2, "No such file"),
    "recipe is no TOML": (other_recipe("name = "), 2, "this is no TOML"),
    "recipe is empty": (other_recipe(""), 2, "'name' is missing"),
    "a typo": (flags("--train.stepps", 3), 2, "'train.stepps' (value 3): did you mean 'steps'?"),
    "a wrong value": (flags("--train.steps", "many"), 2, "train.steps = 'many'"),
    "a negative rate": (flags("--train.learning_rate", -1), 2, "train.learning_rate = -1"),
    "no value": (flags("--train.steps"), 2, "--train.steps 100"),
    "no such preset": (flags("--model.preset", "gtp2"), 2, "model.preset = 'gtp2'"),
    "another family": (flags("--model.preset", "bert-tiny"), 2, "is a encoder"),
    "too short rows": (flags("--train.tokens", 8), 2, "a row must hold the longest text"),
    "no GPU": (flags("--train.device", "cuda"), 2, "train.device = 'cuda': there is none here"),
    "no tokenizer": (flags("--tokenizer.path", "nowhere"), 1, "there is no tokenizer"),
    "another tokenizer": (foreign_tokenizer, 2, "the tokenizer has no [MASK]"),
    "a file in the way": (in_the_way, 1, "run: could not be written"),
    "a loop of links": (in_a_loop, 1, "run: could not be written"),
    "all held out": (flags("--data.held_out", 0.999), 2, "nothing to learn from"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str, tmp_path: Path) -> None:
    change, status, said = CASES[name]
    recipe = write_recipe(tmp_path, steps=2)
    words = change(tmp_path)
    end = live("pretrain", recipe, "--out", tmp_path / "run", *words)
    assert end.status == status, end.said
    lines = [line for line in end.said.splitlines() if line.startswith("glassformer: ")]
    assert len(lines) == 1 and end.said.splitlines()[-1] == lines[0], end.said
    assert said in lines[0]
    assert "Traceback" not in end.said and end.steps == 0


def test_another_tokenizer_for_a_run_that_exists(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=2)
    assert live("pretrain", recipe, "--out", tmp_path / "run").status == 0
    before = result(tmp_path / "run")
    path = tmp_path / "run" / "tokenizer" / "tokenizer.json"
    path.write_text(path.read_text().replace('"a"', '"A"'))
    end = live("pretrain", recipe, "--out", tmp_path / "run")
    assert end.status == 1 and "other data was prepared here" in end.said.splitlines()[-1]
    assert result(tmp_path / "run") == before


def test_a_start_that_was_broken_off_does_not_leave_its_tokenizer(tmp_path: Path) -> None:
    """The recipe was changed before the first step: the new one counts."""
    recipe = write_recipe(tmp_path, steps=2)
    out = tmp_path / "run"
    kind = ["--tokenizer.kind", "bpe", "--tokenizer.vocab_size"]
    assert live("pretrain", recipe, "--out", out, *kind, 260, "--train.rows", 0).status == 2
    assert live("pretrain", recipe, "--out", out, "--objective.length", 64, *kind, 260,
                "--train.tokens", 64, "--model.max_length", 32).status == 2  # fmt: skip
    assert (out / "tokenizer" / "tokenizer.json").is_file()
    end = live("pretrain", recipe, "--out", out, *kind, 270)
    assert end.status == 1 and "other data was prepared here" in end.said.splitlines()[-1], end.said
