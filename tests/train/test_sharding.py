"""DDP and FSDP2: the same batches and losses as one process, whoever resumes whose checkpoint."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import damaged, live, metrics, signal_self, write_recipe
from ranks import (
    note_bytes,
    note_rows,
    noted_bytes,
    noted_rows,
    notice_soon,
    ranks,
    start,
)
from safetensors.torch import load_file
from spoiling import Tokens, rows_of, spoil

import glassformer as gf
from glassformer.data.run_paths import RunPaths
from glassformer.distributed import DistributedContext
from glassformer.errors import ConfigError
from glassformer.recipe.schema import read_recipe
from glassformer.train.build import Builder
from sampling import mostly_slow

CASES = [
    (family, shard, count)
    for count in (4, 2)
    for family, shard in (
        ("decoder", "full"), ("encoder", "none"), ("seq2seq", "full"),
        ("decoder", "none"), ("encoder", "full"), ("seq2seq", "none"),
    )
]  # fmt: skip


def check_losses(out: Path, expected: Path, *, within: float) -> None:
    ours, others = metrics(out), metrics(expected)
    assert [each["step"] for each in ours] == [each["step"] for each in others]
    for one, other in zip(ours, others, strict=True):
        if "loss" in other:
            assert one["loss"] == pytest.approx(other["loss"], rel=within)
        else:
            assert one["valid"]["loss"] == pytest.approx(other["valid"]["loss"], rel=within)


def check_ends(ends: list[Any]) -> None:
    assert [end.status for end in ends] == [0] * len(ends), ends[0].said


@pytest.mark.parametrize(
    ("family", "shard"), mostly_slow([("decoder", "full"), ("seq2seq", "none")])
)
def test_two_processes_learn_as_one(family: str, shard: str, tmp_path: Path) -> None:
    check_one_and_many(tmp_path, family, shard, 2, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "shard", "count"), CASES)
def test_many_processes_learn_as_one(family: str, shard: str, count: int, tmp_path: Path) -> None:
    check_one_and_many(tmp_path, family, shard, count, steps=50)


def check_one_and_many(tmp_path: Path, family: str, shard: str, count: int, steps: int) -> None:
    recipe = write_recipe(
        tmp_path, family, micro_batches=4, steps=steps, save_every=steps, evaluate_every=steps // 2
    )
    one = live("pretrain", recipe, "--out", tmp_path / "one",
               mischief=partial(note_rows, tmp_path / "rows-one"))  # fmt: skip
    assert one.status == 0, one.said
    noting = partial(note_rows, tmp_path / "rows-many")
    check_ends(
        ranks(count, recipe, tmp_path / "many", "--distributed.shard", shard, everywhere=noting)
    )
    check_losses(tmp_path / "many", tmp_path / "one", within=1e-6)
    assert noted_rows(tmp_path / "rows-many") == noted_rows(tmp_path / "rows-one")
    assert len(noted_rows(tmp_path / "rows-one")) == 4 * steps


@pytest.mark.slow
@pytest.mark.parametrize("shard", ["full", "none"])
def test_four_then_two_then_three_processes(shard: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=12, steps=9, save_every=3, ema_decay=0.5)
    noting = partial(note_rows, tmp_path / "rows-one")
    stops = (3, 6, 9)  # another number of steps is another schedule: the same for both
    for steps in stops:
        end = live("pretrain", recipe, "--out", tmp_path / "one", "--train.steps", steps,
                   mischief=noting)  # fmt: skip
        assert end.status == 0, end.said
    noting = partial(note_rows, tmp_path / "rows-many")
    for count, steps in zip((4, 2, 3), stops, strict=True):
        words = ("--distributed.shard", shard, "--train.steps", steps)
        check_ends(ranks(count, recipe, tmp_path / "many", *words, everywhere=noting))
    check_losses(tmp_path / "many", tmp_path / "one", within=1e-5)
    assert noted_rows(tmp_path / "rows-many") == noted_rows(tmp_path / "rows-one")


def check_exported(checkpoint: Path, model: Path) -> None:
    """A sharded checkpoint opens, and is saved as the model that the run exported from it."""
    gf.load(checkpoint).save(checkpoint.parent.parent / "exported")
    ours = load_file(checkpoint.parent.parent / "exported" / "model.safetensors")
    theirs = load_file(model / "model.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.slow
def test_sharded_and_whole_checkpoints_follow_each_other(tmp_path: Path) -> None:
    """One process, two with shards, one again; and what is exported is the same model."""
    recipe = write_recipe(tmp_path, "encoder", micro_batches=2, steps=6, save_every=2)
    out, other = tmp_path / "run", tmp_path / "one"
    for steps in (2, 4, 6):
        words = ("pretrain", recipe, "--train.steps", steps)
        assert live(*words, "--out", other).status == 0
        if steps == 4:
            check_ends(ranks(2, recipe, out, "--distributed.shard", "full", "--train.steps", steps))
            assert damaged(out) == []
            folder = out / "checkpoints" / "step-00000004"
            assert len([*(folder / "sharded").iterdir()]) > 2
            assert not (folder / "model.safetensors").exists()
            check_exported(folder, out / "model")
        else:
            assert live(*words, "--out", out).status == 0
    check_losses(out, other, within=1e-5)
    ours, theirs = (load_file(each / "model" / "model.safetensors") for each in (out, other))
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert (ours[name] - tensor).abs().max() < 1e-4, name


@pytest.mark.slow
def test_the_same_sharded_run_has_the_same_bits_after_a_resume(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2, steps=6, save_every=3, schedule="constant")
    words = ("--distributed.shard", "full")
    check_ends(ranks(2, recipe, tmp_path / "whole", *words))
    for steps in (3, 6):
        check_ends(ranks(2, recipe, tmp_path / "parts", *words, "--train.steps", steps))
    losses = [
        [each["loss"] for each in metrics(tmp_path / name) if "loss" in each]
        for name in ("whole", "parts")
    ]
    assert losses[0] == losses[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    mostly_slow([
        {"optimiser": "muon", "learning_rate": 0.003},
        {"activation_checkpointing": True, "compile": True},
        {"freeze": 1},
    ]),
    ids=str,
)  # fmt: skip
def test_what_else_a_sharded_run_may_do(settings: dict[str, Any], tmp_path: Path) -> None:
    recipe = write_recipe(
        tmp_path, micro_batches=2, steps=6, save_every=6, dropout="compile" not in settings,
        **settings,
    )  # fmt: skip
    assert live("pretrain", recipe, "--out", tmp_path / "one").status == 0
    check_ends(ranks(2, recipe, tmp_path / "many", "--distributed.shard", "full"))
    check_losses(tmp_path / "many", tmp_path / "one", within=1e-5)


@pytest.mark.slow
def test_four_shards_hold_a_quarter_each(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=4, steps=1)
    noting = partial(note_bytes, tmp_path / "one-bytes")
    assert live("pretrain", recipe, "--out", tmp_path / "one", mischief=noting).status == 0
    noting = partial(note_bytes, tmp_path / "bytes")
    check_ends(ranks(4, recipe, tmp_path / "run", "--distributed.shard", "full", everywhere=noting))
    (whole,) = noted_bytes(tmp_path / "one-bytes")
    shares = noted_bytes(tmp_path / "bytes")
    assert len(shares) == 4 and sum(shares) >= whole
    assert max(shares) <= 0.30 * whole, (shares, whole)


def write_in_background() -> None:
    """As on a GPU."""
    from glassformer.train.parallel import checkpoint

    checkpoint.in_background = lambda device: True


@pytest.mark.slow
def test_checkpoints_that_are_written_while_the_training_continues(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2, steps=7, save_every=2)
    words = ("--distributed.shard", "full")
    check_ends(ranks(2, recipe, tmp_path / "at-once", *words))
    check_ends(ranks(2, recipe, tmp_path / "later", *words, everywhere=write_in_background))
    assert damaged(tmp_path / "later") == []
    for step in (6, 7):
        shares = [
            {
                (file.name, name): tensor.tolist()
                for file in (tmp_path / run / f"checkpoints/step-{step:08d}/sharded").iterdir()
                for name, tensor in load_file(file).items()
            }
            for run in ("at-once", "later")
        ]
        assert len(shares[0]) > 2 and shares[0] == shares[1]
    assert not [*(tmp_path / "later").rglob(".*.tmp*")]


def complete_slowly(noted: Path) -> None:
    """The main process needs a while to complete a checkpoint. Before, it writes down which
    checkpoints there are."""
    from glassformer.train.parallel import checkpoint

    write_in_background()
    complete = checkpoint._complete

    def slow(beside: Path, folder: Path, texts: Any) -> None:
        time.sleep(1)
        names = sorted(path.name for path in folder.parent.glob("step-*"))
        with noted.open("a") as file:
            file.write(json.dumps([folder.name, names]) + "\n")
        complete(beside, folder, texts)

    checkpoint._complete = slow


def measure(noted: Path) -> None:
    """The first evaluation is better than the second, and the third is the best."""
    from glassformer.train import trainer

    complete_slowly(noted)
    losses = iter([2.0, 3.0, 1.0])
    trainer.loss_metrics = lambda *arguments: {"loss": next(losses)}


@pytest.mark.slow
def test_the_best_checkpoint_is_kept_until_a_better_one_is_complete(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, steps=6, save_every=2, evaluate_every=2, keep_checkpoints=1)
    noted = tmp_path / "noted"
    end = live("pretrain", recipe, "--out", tmp_path / "run", "--distributed.shard", "full",
               mischief=partial(measure, noted))  # fmt: skip
    assert end.status == 0, end.said
    existing = dict(json.loads(line) for line in noted.read_text().splitlines())
    assert existing["step-00000006"] == ["step-00000002", "step-00000004"]
    assert [path.name for path in tmp_path.glob("run/checkpoints/*")] == ["step-00000006"]


def spoil_and_complete_slowly(bad: list[Tokens], noted: Path) -> None:
    spoil(bad, "nan")
    complete_slowly(noted)


@pytest.mark.slow
def test_all_processes_roll_back_to_the_same_checkpoint(tmp_path: Path) -> None:
    """The step after a save is bad, while the main process completes the checkpoint."""
    recipe = write_recipe(
        tmp_path, micro_batches=2, steps=6, save_every=3, evaluate_every=100, dropout=False
    )
    bad = rows_of(recipe, tmp_path / "look", 7)
    spoiling = partial(spoil_and_complete_slowly, bad, tmp_path / "noted")
    ends = ranks(2, recipe, tmp_path / "run", "--distributed.shard", "full", everywhere=spoiling)
    check_ends(ends)
    assert "rolled back to step 3" in ends[0].said, ends[0].said
    one = live("pretrain", recipe, "--out", tmp_path / "one", mischief=partial(spoil, bad, "nan"))
    assert one.status == 0 and "rolled back to step 3" in one.said, one.said
    check_losses(tmp_path / "run", tmp_path / "one", within=1e-5)


def die_in_step(step: int) -> None:
    from glassformer.train import trainer as session

    fit = session.fit

    def counted(*arguments: Any) -> Any:
        for done in fit(*arguments):
            if done.number == step:
                signal_self(9)
            yield done

    session.fit = counted


@pytest.mark.parametrize("shard", mostly_slow(["full", "none"]))
def test_a_process_that_dies_is_named(shard: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=3)
    lives = start(
        3, recipe, tmp_path / "run", "--distributed.shard", shard,
        mischief=partial(die_in_step, 5), everywhere=notice_soon,
    )  # fmt: skip
    pid = lives[1].process.pid
    first, second, third = (life.end() for life in lives)
    assert second.status == -9
    for end in (first, third):
        line = end.said.strip().splitlines()[-1]
        assert end.status == 1 and "Traceback" not in end.said, end.said
        assert "process 1 of 3 (" in line and f"process {pid}) has ended" in line, end.said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"cuda_graphs": True}, "train.cuda_graphs = true is for a single process"),
        ({"micro_batch_tokens": "auto"}, "train.micro_batch_tokens = 'auto' cannot be measured"),
    ],
)
def test_what_cannot_be_sharded(settings: dict[str, Any], words: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, **settings)
    end = live("pretrain", recipe, "--out", tmp_path / "run", "--distributed.shard", "full")
    assert end.status == 2 and words in end.said, end.said


def test_mps_cannot_be_sharded(tmp_path: Path) -> None:
    recipe = read_recipe(write_recipe(tmp_path), {"distributed.shard": "full"})
    world = DistributedContext(0, 1, torch.device("mps"))
    with pytest.raises(ConfigError, match="cannot use mps: write cpu or cuda"):
        Builder(recipe, RunPaths(tmp_path, tmp_path / "run", "recipe.toml")).trainer(world)


def test_an_incomplete_sharded_checkpoint_is_not_used(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, micro_batches=2, steps=4)
    out, words = tmp_path / "run", ("--distributed.shard", "full")
    check_ends(ranks(2, recipe, out, *words))
    newest = out / "checkpoints" / "step-00000004"
    share = min((newest / "sharded").iterdir())
    share.write_bytes(share.read_bytes()[:-1])
    end = live("pretrain", recipe, "--out", out, "--train.steps", 5)
    said = " ".join(end.said.split())  # a long line is wrapped
    assert end.status == 0 and "is damaged" in said and "resuming after step 2" in said, said
    facts = json.loads((out / "checkpoints/step-00000005/trainer.json").read_text())
    assert facts["step"] == 5
