"""Wrong input costs one line that says what and where, and nothing that was there before."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import at_step, live, result, signal_self, write_recipe

from commands import glassformer
from sampling import mostly_slow

Change = Callable[[Path], list[object]]


def text(data: bytes, name: str = "text.txt") -> Change:
    """Another training file."""

    def change(folder: Path) -> list[object]:
        (folder / name).write_bytes(data)
        return ["--data.train", folder / name]

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
    flags = [
        "--tokenizer.path",
        folder / "words",
        "--objective.kind",
        "masked_lm",
        "--model.preset",
    ]
    return [*flags, "bert-tiny"]


LINES = b"".join(json.dumps({"text": f"line {i}."}).encode() + b"\n" for i in range(6))
CASES: dict[str, tuple[Change, int, str]] = {
    "no file": (flags("--data.train", "none.txt"), 1, "File not found: "),
    "empty file": (text(b""), 1, "text.txt: there is no text in it"),
    "blank file": (text(b"\n \n\n"), 1, "text.txt: there is no text in it"),
    "binary file": (text(b"ab\0cd" * 9), 1, "line 1 holds a NUL byte"),
    "not UTF-8": (text(b"good\nbad \xff\n"), 1, "text.txt: line 2, byte 10"),
    "cut .gz": (text(gzip.compress(LINES)[:40], "t.txt.gz"), 1, "t.txt.gz: cannot be read"),
    "broken JSONL": (text(LINES + b'{"text": "a\n', "t.jsonl"), 1, "t.jsonl: line 7"),
    "JSONL without text": (text(LINES + b'{"txet": "a"}\n', "t.jsonl"), 1, "t.jsonl: line 7"),
    "no languages": (flags("--data.languages", '["en"]'), 2, "data.languages = ['en']: name two"),
    "no recipe": (lambda folder: (folder / "recipe.toml").unlink() or [], 2, "File not found: "),
    "recipe is no TOML": (other_recipe("name = "), 2, "not valid TOML"),
    "a text without quotes": (other_recipe("name = mine"), 2, "a text needs quotes"),
    "recipe is empty": (other_recipe(""), 2, "'name' is missing"),
    "a typo": (
        flags("--train.stepps", 3),
        2,
        "--train.stepps: there is no such option or field: did",
    ),
    "a wrong value": (flags("--train.steps", "many"), 2, "train.steps = 'many'"),
    "a negative rate": (flags("--train.learning_rate", -1), 2, "train.learning_rate = -1"),
    "no value": (flags("--train.steps"), 2, "--train.steps: its value is missing"),
    "a typo in the model": (flags("--model.depht", 3), 2, "did you mean '--model.depth'?"),
    "too long": (flags("--model.max_length", 8), 2, "objective.length = 32: the model reads at m"),
    "no file to test on": (flags("--data.valid", "none.txt"), 1, "File not found: "),
    "no such preset": (flags("--model.preset", "gtp2"), 2, "model.preset = 'gtp2'"),
    "another family": (flags("--model.preset", "bert-tiny"), 2, "is an encoder"),
    "too short rows": (
        flags("--train.micro_batch_tokens", 8),
        2,
        "a micro-batch must hold the longest text",
    ),
    "no GPU": (flags("--train.device", "cuda"), 2, "train.device = 'cuda': this machine has none"),
    "no tokenizer": (flags("--tokenizer.path", "nowhere"), 1, "nowhere (tokenizer.path)"),
    "another tokenizer": (foreign_tokenizer, 2, "the tokenizer has no mask token"),
    "a file in the way": (in_the_way, 1, "run: could not be written"),
    "a loop of links": (in_a_loop, 1, "run: could not be written"),
    "all held out": (flags("--data.valid_fraction", 0.999), 2, "nothing to train on"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str, tmp_path: Path) -> None:
    change, status, said = CASES[name]
    recipe = write_recipe(tmp_path, steps=2)
    words = change(tmp_path)
    told = glassformer("pretrain", recipe, "--out", tmp_path / "run", *words, code=status).errors
    lines = [line for line in told.splitlines() if line.startswith("glassformer: ")]
    assert len(lines) == 1 and told.splitlines()[-1] == lines[0], told
    assert said in lines[0]
    logged = tmp_path / "run" / "metrics.jsonl"
    assert "Traceback" not in told and not (logged.exists() and "loss" in logged.read_text())


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
    """Recipe and text were changed before the first step: the new ones count."""
    recipe = write_recipe(tmp_path, steps=2)
    out = tmp_path / "run"
    kind = ["--tokenizer.kind", "bpe", "--tokenizer.vocab_size"]
    assert live("pretrain", recipe, "--out", out, *kind, 260, "--dry-run").status == 0
    before = (out / "tokenizer" / "tokenizer.json").read_bytes()
    assert live("pretrain", recipe, "--out", out, "--dry-run").status == 0  # its characters
    with (tmp_path / "text.txt").open("a") as file:
        file.write("\n\n☃ and ☃☃")
    end = live("pretrain", recipe, "--out", out)
    assert end.status == 0, end.said
    made = (out / "tokenizer" / "tokenizer.json").read_bytes()
    assert "☃" in made.decode() and made != before


def test_a_run_that_has_begun_keeps_its_recipe(tmp_path: Path) -> None:
    """And what it has made, its tokenizer too."""
    recipe, out = write_recipe(tmp_path, steps=2), tmp_path / "run"
    assert live("pretrain", recipe, "--out", out).status == 0
    before = result(out), (out / "tokenizer" / "tokenizer.json").read_bytes()
    words = ("--tokenizer.kind", "bytes")
    for flags in (words, (*words, "--dry-run")):
        end = live("pretrain", recipe, "--out", out, *flags)
        assert end.status == 2
        assert end.said == (
            f"glassformer: {out}: a run with another tokenizer.kind is here: choose another "
            "--out, or delete it\n"
        )
    assert before == (result(out), (out / "tokenizer" / "tokenizer.json").read_bytes())
    written = out / "recipe.toml"
    assert "cuda_graphs = false\n" in written.read_text()
    written.write_text(
        written.read_text().replace("cuda_graphs = false\n", "")
    )  # it is older than that
    for flags in ((), ("--train.cuda_graphs", "true")):  # which changes no number
        end = live("pretrain", recipe, "--out", out, *flags)
        assert end.status == 0, end.said


def test_a_model_that_cannot_be_trained_is_refused_before_any_work(tmp_path: Path) -> None:
    recipe, run = write_recipe(tmp_path, steps=1), tmp_path / "run"
    assert live("pretrain", recipe, "--out", run).status == 0
    tune = tmp_path / "tune.toml"
    groups = recipe.read_text().split("\n\n")
    tune.write_text("\n\n".join(g for g in groups if not g.startswith(("[model", "[tokenizer"))))
    masked = ("--objective.kind", "masked_lm")
    for model, words, said in (
        (tmp_path / "none", (), "none: no such folder: write the folder of a model"),
        (run, (), f"this is the folder of a run: use {run / 'model'}"),
        (run / "tokenizer", (), "config.json is missing"),
        (
            run / "model",
            masked,
            "this model is a decoder, and objective.kind = 'masked_lm' needs an encoder",
        ),
        (run / "model", ("--objective.length", 33), "the model reads at most 32 tokens"),
    ):
        end = live("finetune", model, tune, "--out", tmp_path / "tuned", *words)
        assert end.status in (1, 2) and end.said.count("\n") == 1 and said in end.said, end.said
    assert {each.name for each in (tmp_path / "tuned").iterdir()} <= {".lock"}
    assert live("finetune", run / "model", tune, "--out", tmp_path / "tuned").status == 0


def stop_while_preparing(number: int) -> None:
    from glassformer.train import build

    made = build.prepare

    def prepare(*given: Any, **settings: Any) -> Any:
        signal_self(number)
        return made(*given, **settings)

    build.prepare = prepare


@pytest.mark.parametrize("number", mostly_slow([signal.SIGINT, signal.SIGTERM]))
def test_interrupted_before_the_first_step(number: int, tmp_path: Path) -> None:
    words = ("pretrain", write_recipe(tmp_path, steps=2), "--out", tmp_path / "run")
    end = live(*words, mischief=partial(stop_while_preparing, number))
    assert end.status == 75, end.said
    line = (
        f"glassformer: {tmp_path / 'run'}: interrupted before the first step: run the same command"
    )
    assert end.said.splitlines()[-1].startswith(line)
    assert live(*words).status == 0


def test_a_letter_of_the_held_out_part_alone_is_known(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=2, valid=4)
    with (tmp_path / "valid.txt").open("a") as file:
        file.write("\n\nthe ☃ melts")
    end = live("pretrain", recipe, "--out", tmp_path / "run")
    assert end.status == 0, end.said
    assert "☃" in (tmp_path / "run" / "tokenizer" / "tokenizer.json").read_text()


def no_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")


def test_out_of_memory_says_which_number_to_lower(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    for graphs, more in (("false", ""), ("true", " --train.cuda_graphs false")):
        words = ("pretrain", recipe, "--out", tmp_path / graphs, "--train.cuda_graphs", graphs)
        end = live(*words, mischief=partial(at_step, 3, no_memory))
        assert end.status == 1
        assert end.said.splitlines()[-1] == (
            "glassformer: out of memory with train.micro_batch_tokens = 64: lower it "
            "(--train.micro_batch_tokens 32 --train.micro_batches 2 trains the same), or set "
            f"--train.activation_checkpointing true{more}"
        )
