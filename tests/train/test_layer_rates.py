"""Layer-wise rates, frozen layers and class weights do what they say."""

import math
import tomllib

import numpy as np
import pytest
import torch
from harness import session

from commands import refused
from glassformer.objectives.classification import balanced_losses
from glassformer.train.loop import fit
from glassformer.train.optim.schedule import share
from glassformer.train.optim.weights import frozen, rates
from tiny import write_recipe

TRAIN = {"steps": 4, "warmup": 0, "schedule": "constant", "weight_decay": 0.0, "max_grad_norm": 1e9}
NAMES = [
    "backbone.encoder.embedding.token.weight", "backbone.encoder.embedding.norm.bias",
    "backbone.encoder.blocks.0.mlp.up.weight", "backbone.encoder.blocks.2.mlp.up.weight",
    "pooler.dense.weight", "labels.linear.bias",
]  # fmt: skip


def test_rates_fall_from_block_to_block():
    assert list(rates(NAMES, 0.5).values()) == [1 / 16, 1 / 16, 1 / 8, 1 / 2, 1, 1]
    assert set(rates(NAMES, 1.0).values()) == {1.0}


def test_the_lowest_are_frozen():
    assert frozen(NAMES, 0) == []
    assert frozen(NAMES, 1) == NAMES[:3] and frozen(NAMES, 2) == NAMES[:3]
    assert frozen(NAMES, 3) == NAMES[:4]


def moved(folder, **train):
    """How far one step moved each parameter, at most."""
    recipe = write_recipe(folder, "classification", model={"depth": 2}, train=TRAIN | train)
    made = session(recipe, folder / "run")
    before = {n: p.detach().clone() for n, p in made.state.inference_task().named_parameters()}
    next(fit(made.state, made.rows, made.world))
    after = made.state.inference_task().named_parameters()
    return {n: float((p.detach() - before[n]).abs().max()) for n, p in after}


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_each_layer_moves_at_its_own_rate(tmp_path, optimiser):
    one, other = (
        moved(
            tmp_path / f"{decay}", layerwise_lr_decay=decay, learning_rate=0.01, optimiser=optimiser
        )
        for decay in (1.0, 0.5)
    )
    for name, scale in rates(list(one), 0.5).items():
        if one[name] > 1e-4:
            assert other[name] == pytest.approx(scale * one[name], rel=0.02), name


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_frozen_layers_stay(tmp_path, precision):
    found = moved(tmp_path, freeze=1, weight_decay=0.5, precision=precision)
    still = set(frozen(list(found), 1))
    assert still and all((found[name] == 0.0) == (name in still) for name in found if
                         name in still or "weight" in name)  # fmt: skip


def test_rare_classes_count_more(tmp_path):
    recipe = write_recipe(tmp_path, "classification", objective={"class_weights": "balanced"})
    made = session(recipe, tmp_path / "run")
    task = made.state.task.eval()
    numbers = made.rows.dataset.store["labels"].row
    counts = np.bincount(numbers)
    weights = torch.tensor(len(numbers) / 2 / counts)
    batch = made.rows[0].batch
    logits = task(batch).logits.log_softmax(-1)
    slow = sum(-weights[y] * logits[i, y] for i, y in enumerate(batch.labels.tolist()))
    found = made.losses(batch)["labels"]
    assert found.total.item() == pytest.approx(slow.item(), rel=1e-5)
    assert found.count == len(batch.labels)
    assert float((weights * torch.tensor(counts)).sum()) == pytest.approx(len(numbers))
    assert balanced_losses(task, made.rows.dataset)(batch)["labels"].total == found.total


def test_epochs_become_steps(tmp_path):
    recipe = write_recipe(
        tmp_path, "classification", train={"steps": 0, "epochs": 2.5, "micro_batches": 2}
    )
    text = recipe.read_text().replace("evaluate_every = 3\n", "").replace("save_every = 3\n", "")
    recipe.write_text(text)
    train = (made := session(recipe, tmp_path / "run")).state.train
    epoch = len(made.rows.plan(0)) / 2
    assert train.steps == round(2.5 * epoch)
    assert train.evaluate_every == train.save_every == round(epoch)
    both = write_recipe(tmp_path, "classification", train={"epochs": 2})
    assert "train.epochs = 2: write one of them" in refused("pretrain", both, code=2)


def test_a_warm_up_may_be_a_share():
    given = {"steps": 50, "decay": 0.2, "final": 0.0}
    for step in range(50):
        shares = [share("linear", step, warmup=warmup, **given) for warmup in (0.1, 5)]
        assert math.isclose(*shares)


def test_a_recipe_keeps_what_was_found(tmp_path):
    """best_by and the like are written with the run, and run the same command to resume."""
    from commands import glassformer

    recipe = write_recipe(tmp_path, "classification")
    for _ in range(2):
        glassformer("pretrain", recipe, "--out", tmp_path / "run")
    kept = tomllib.loads((tmp_path / "run/recipe.toml").read_text())
    assert kept["train"]["best_by"] == "accuracy"
