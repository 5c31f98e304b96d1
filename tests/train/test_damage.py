"""A flipped bit or a file cut short is found, named, and the checkpoint before it is used."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import live, result, write_recipe

from glassformer.checkpoint.folder import verify
from glassformer.errors import CheckpointError
from glassformer.train.run_dir import RunDir
from sampling import mostly_slow

FILES = (
    "config.json", "manifest.json", "model.safetensors", "optimiser.safetensors", "tokenizer.json",
    "tokenizer_config.json", "trainer.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("damage")
    recipe = write_recipe(folder, steps=6, save_every=2, keep_checkpoints=3)
    assert live("pretrain", recipe, "--out", folder / "run").status == 0
    return folder / "run"


def flip(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << draw.randrange(8))]) + data[place + 1 :]


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def garble(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + draw.randbytes(min(512, len(data) - place))


@pytest.mark.parametrize("how", mostly_slow([flip, cut, garble]))
@pytest.mark.parametrize("name", FILES)
def test_damage_is_seen_wherever_it_is(
    run: Path, name: str, how: Callable[[bytes, random.Random], bytes]
) -> None:
    """70 places in each of seven files, three ways: some 1,500 times."""
    newest = run / "checkpoints" / "step-00000006"
    path, draw = newest / name, random.Random(name)
    whole = path.read_bytes()
    keeper = RunDir(run, {}, {})
    assert keeper.latest() == newest
    try:
        for _ in range(70):
            path.write_bytes(how(whole, draw))
            told: list[str] = []
            assert keeper.latest(told.append) == run / "checkpoints" / "step-00000004"
            assert len(told) == 1 and str(newest) in told[0] and "before it is used" in told[0]
            if name != "manifest.json":  # a wrong list may name any file
                assert str(path) in told[0]
    finally:
        path.write_bytes(whole)
    verify(newest)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_seen(run: Path, name: str) -> None:
    path = run / "checkpoints" / "step-00000006" / name
    whole = path.read_bytes()
    path.unlink()
    try:
        with pytest.raises(CheckpointError, match=f"{name}.*missing"):
            verify(path.parent)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "name", mostly_slow(["model.safetensors", "optimiser.safetensors", "trainer.json"])
)
def test_the_run_goes_on_from_the_one_before(name: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=8, save_every=2)
    live("pretrain", recipe, "--out", tmp_path / "whole")
    expected = result(tmp_path / "whole")
    out = tmp_path / "run"
    live("pretrain", recipe, "--out", out)
    path = out / "checkpoints" / "step-00000008" / name
    path.write_bytes(flip(path.read_bytes(), random.Random(3)))
    end = live("pretrain", recipe, "--out", out)
    assert end.status == 0 and end.steps == 2, end.said
    assert f"{path}" in end.said.replace("\n", "") and "resuming after step 6" in end.said
    assert result(out) == expected


def test_a_damaged_one_does_not_push_out_a_good_one(tmp_path: Path) -> None:
    """With one to keep: what was just written stays, what is damaged and later goes."""
    recipe = write_recipe(tmp_path, steps=8, save_every=4, evaluate_every=100)
    out = tmp_path / "run"
    live("pretrain", recipe, "--out", out)
    (out / "checkpoints" / "step-00000008" / "model.safetensors").write_bytes(b"")
    end = live("pretrain", recipe, "--out", out, "--train.steps", 5, "--train.keep_checkpoints", 1)
    assert end.status == 0 and end.steps == 1, end.said
    assert [path.name for path in out.glob("checkpoints/*")] == ["step-00000005"]
    verify(out / "checkpoints" / "step-00000005")


def test_where_none_is_complete_nothing_is_deleted(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=4, save_every=2)
    out = tmp_path / "run"
    live("pretrain", recipe, "--out", out)
    for path in out.glob("checkpoints/*/optimiser.safetensors"):
        path.write_bytes(cut(path.read_bytes(), random.Random(5)))
    before = {path: path.read_bytes() for path in out.glob("checkpoints/*/*")}
    end = live("pretrain", recipe, "--out", out)
    assert end.status == 1 and end.steps == 0
    assert "2 checkpoints, none of them complete" in end.said.splitlines()[-1]
    assert {path: path.read_bytes() for path in out.glob("checkpoints/*/*")} == before


def get_worse() -> None:
    """Each evaluation is worse than the one before."""
    from glassformer.train import trainer

    count = [0]

    def loss_metrics(*given: Any) -> dict[str, float]:
        count[0] += 1
        return {"loss": float(count[0])}

    trainer.loss_metrics = loss_metrics


def test_a_damaged_best_one_is_not_the_result(tmp_path: Path) -> None:
    """The last weights are the result then, as if no others had been measured."""
    recipe = write_recipe(tmp_path, steps=8, save_every=8, evaluate_every=3, keep_checkpoints=1)
    out = tmp_path / "run"
    live("pretrain", recipe, "--out", out, mischief=get_worse)
    best = out / "checkpoints" / "step-00000003"
    model = (out / "model" / "model.safetensors").read_bytes()
    assert model == (best / "model.safetensors").read_bytes()
    (best / "trainer.json").write_bytes(b"{}")
    assert live("pretrain", recipe, "--out", out).status == 0
    last = out / "checkpoints" / "step-00000008" / "model.safetensors"
    assert (out / "model" / "model.safetensors").read_bytes() == last.read_bytes()
