"""Sharded checkpoints that are damaged: refused in one line, before memory is allocated."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import folders
import glassformer as gf
from folders import edit_config
from glassformer.checkpoint import load_task
from glassformer.errors import CheckpointError

Shares = list[tuple[str, list[int], torch.Tensor]]  # name in the file, offsets, rows


def write_shares(folder: Path, number: int, shares: Shares) -> None:
    """One file, as torch.distributed.checkpoint writes it."""
    places = json.dumps({key: {"saved_offsets": offsets} for key, offsets, _ in shares})
    save_file(
        {key: rows.contiguous() for key, _, rows in shares},
        folder / "sharded" / f"shard-{number}.safetensors",
        {"DCP_SHARDING_INFO": places},
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folders.write("GPT2LMHeadModel", tmp_path / "model")


def keep(first: Shares, second: Shares) -> None:
    """No damage."""


def split(folder: Path, change: Callable[[Shares, Shares], None] = keep) -> Path:
    """The weights in two files instead of one, each with about half of the rows."""
    task, _ = load_task(folder)
    first, second = Shares(), Shares()
    for name, weight in task.named_parameters():
        half = len(weight) // 2
        zeros = [0] * (weight.dim() - 1)
        first.append((f"master/{name}", [0, *zeros], weight.detach()[:half].clone()))
        second.append((f"master/{name}", [half, *zeros], weight.detach()[half:].clone()))
    change(first, second)
    (folder / "model.safetensors").unlink()
    (folder / "sharded").mkdir()
    write_shares(folder, 1, first)
    write_shares(folder, 2, second)
    return folder


def refusal(folder: Path, *words: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        gf.load(folder)
    folders.one_line(caught.value, str(folder), *words)


def test_shares_are_put_together(folder: Path) -> None:
    whole, _ = load_task(folder)
    expected = {name: weight.detach().clone() for name, weight in whole.named_parameters()}
    task, _ = load_task(split(folder))
    for name, weight in task.named_parameters():
        assert torch.equal(weight, expected[name]), name


def move(first: Shares, second: Shares) -> None:
    key, offsets, rows = second[0]
    second[0] = (key, [0, *offsets[1:]], rows)


def move_down(first: Shares, second: Shares) -> None:
    key, offsets, rows = second[0]
    second[0] = (key, [offsets[0] + 10**15, *offsets[1:]], rows)


def move_aside(first: Shares, second: Shares) -> None:
    key, offsets, rows = second[0]
    second[0] = (key, [offsets[0], 1], rows)


def shorten(first: Shares, second: Shares) -> None:
    key, offsets, rows = first[0]
    first[0] = (key, offsets, rows[:-1])


def narrow(first: Shares, second: Shares) -> None:
    key, offsets, rows = first[0]
    first[0] = (key, offsets, rows[:, 1:])


def halve(first: Shares, second: Shares) -> None:
    key, offsets, rows = first[0]
    first[0] = (key, offsets, rows.half())


def leave_out(first: Shares, second: Shares) -> None:
    del first[0], second[0]


def add(first: Shares, second: Shares) -> None:
    first.append(("master/other", [0], torch.zeros(3)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (move, "row 0 is in more than one share"),
        (move_down, "does not fit into the shape"),
        (move_aside, "write the first row, and 0 for each further dimension"),
        (shorten, "is missing"),
        (narrow, "does not fit into the shape"),
        (halve, "has dtype float16: write float32"),
        (leave_out, "row 0 is missing"),
        (add, "tensor 'master/other' is not in this model"),
    ],
)  # fmt: skip
def test_damaged_shares_are_refused(
    change: Callable[[Shares, Shares], None], words: str, folder: Path
) -> None:
    refusal(split(folder, change), words)


def test_a_missing_file_is_noticed(folder: Path) -> None:
    (split(folder) / "sharded" / "shard-2.safetensors").unlink()
    refusal(folder, "is missing")


@pytest.mark.parametrize(
    ("key", "value"),
    [("vocab_size", 10**9), ("n_inner", 10**9), ("n_layer", 1000), ("n_positions", 10**9)],
)
def test_a_huge_size_is_refused_before_it_is_allocated(key: str, value: int, folder: Path) -> None:
    edit_config(split(folder), **{key: value})
    refusal(folder, key)
