"""What a run remembers: masters, averages, optimisers; written down and read back bit by bit."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import FAMILIES, session, write_recipe

from glassformer import precision
from glassformer.config import ModelConfig, TaskConfig
from glassformer.model import Batch
from glassformer.recipe.schema import read_recipe
from glassformer.tasks import build_task
from glassformer.train.loop import fit
from glassformer.train.optim.weights import Weights
from glassformer.train.setup import checkpoint_activations, resume
from glassformer.train.state import State
from glassformer.train.trainer import Trainer
from sampling import every_nth, mostly_slow

CASES = list(itertools.product(("float32", "bfloat16"), ("adamw", "muon"), (0.0, 0.9)))


def some_steps(given: Trainer, count: int) -> list[float]:
    steps = fit(given.state, given.rows, given.world)
    return [next(steps).loss for _ in range(count)]


def all_of(state: State) -> dict[str, torch.Tensor]:
    return {
        **{f"weights/{n}": p.detach().clone() for n, p in state.task.named_parameters()},
        **{f"masters/{n}": p.detach().clone() for n, p in state.weights.masters.items()},
        **{f"average/{n}": p.clone() for n, p in state.average.items()},
        **{name: tensor.clone() for name, tensor in state.tensors().items()},
    }


def check_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert tensor.dtype == other[name].dtype and torch.equal(tensor, other[name]), name


@pytest.mark.parametrize("family", mostly_slow(FAMILIES))
@pytest.mark.parametrize("case", every_nth(CASES, 3), ids=str)
def test_written_and_read(family: str, case: tuple[Any, ...], tmp_path: Path) -> None:
    precision, optimiser, average = case
    settings = {"precision": precision, "optimiser": optimiser, "ema_decay": average}
    recipe = write_recipe(tmp_path, family, **settings)
    given = session(recipe, tmp_path / "run")
    some_steps(given, 3)
    folder = given.run_dir.save(given.state)
    before = all_of(given.state)
    assert any(name.startswith("0/") for name in before)
    fresh = session(recipe, tmp_path / "run")
    fresh.state.load(folder)
    check_equal(all_of(fresh.state), before)
    assert fresh.state.progress == given.state.progress
    assert some_steps(fresh, 3) == some_steps(given, 3)
    check_equal(all_of(fresh.state), all_of(given.state))
    given.state.load(folder)  # back again, in the same process
    check_equal(all_of(given.state), before)


def test_back_to_the_very_first_state(tmp_path: Path) -> None:
    """Nothing of the optimiser's memory stays."""
    given = session(write_recipe(tmp_path), tmp_path / "run")
    folder = given.run_dir.save(given.state)
    before = all_of(given.state)
    losses = some_steps(given, 3)
    given.state.load(folder)
    check_equal(all_of(given.state), before)
    assert some_steps(given, 3) == losses


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_average_is_what_is_measured_and_kept(precision: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, ema_decay=0.75, precision=precision)
    given = session(recipe, tmp_path / "run")
    state = given.state
    name = next(iter(state.weights.masters))
    expected = state.weights.masters[name].detach().double()
    for _ in fit(state, given.rows, given.world):
        expected = 0.75 * expected + 0.25 * state.weights.masters[name].detach().double()
    torch.testing.assert_close(state.average[name].double(), expected, rtol=1e-5, atol=1e-7)
    kept = dict(state.task.named_parameters())[name].detach().clone()
    with state.averaged():
        inside = dict(state.task.named_parameters())[name]
        torch.testing.assert_close(inside, state.average[name].to(inside.dtype), rtol=0, atol=0)
    assert torch.equal(dict(state.task.named_parameters())[name], kept)
    answer = dict(state.inference_task().named_parameters())[name]
    assert answer.dtype == torch.float32 and torch.equal(answer, state.average[name])


def test_muon_moves_the_matrices_of_the_blocks(tmp_path: Path) -> None:
    given = session(write_recipe(tmp_path, optimiser="muon"), tmp_path / "run")
    adam, muon = given.state.optimisers
    moved = [n for group in muon.param_groups for n in group["param_names"]]
    assert moved and all(".blocks." in name and name.endswith("weight") for name in moved)
    rest = [n for group in adam.param_groups for n in group["param_names"]]
    assert sorted(moved + rest) == sorted(given.state.weights.masters)
    losses = some_steps(given, 12)
    assert losses[-1] < losses[0]


def test_small_steps_are_not_lost_in_bfloat16() -> None:
    """A weight of 1 cannot move by 0.001 in bfloat16; its master can."""
    model = torch.nn.LayerNorm(8)
    weights = Weights(model, torch.bfloat16)
    with torch.no_grad():
        weights.masters["weight"].sub_(0.001)
    weights.publish()
    assert model.weight.dtype == torch.bfloat16
    assert model.weight.eq(1).all()
    assert weights.masters["weight"].lt(1).all()


def test_bfloat16_computes_in_float32_where_the_cpu_is_slow_at_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "cpu_bfloat16", lambda: "")
    recipe = write_recipe(tmp_path, precision="bfloat16", optimiser="muon")
    given = session(recipe, tmp_path / "run")
    lines: list[str] = []
    resume(given, read_recipe(recipe).train, lines.append)
    assert given.state.compute.dtype == torch.float32
    assert lines == [
        "train.precision = 'bfloat16': computing in float32: this CPU has no bfloat16 products"
    ]


@pytest.mark.parametrize("family", mostly_slow(reversed(FAMILIES)))
def test_recomputing_changes_nothing(family: str, tmp_path: Path) -> None:

    recipe = write_recipe(tmp_path, family)
    plain, again = (session(recipe, tmp_path / name) for name in ("plain", "again"))
    checkpointing = read_recipe(recipe, {"train.activation_checkpointing": "true"})
    resume(again, checkpointing.train, lambda line: None)
    calls = []
    block = next(m for n, m in again.state.task.named_modules() if n.endswith("blocks.0"))
    block.mlp.register_forward_hook(lambda *_: calls.append(1))
    assert some_steps(again, 5) == some_steps(plain, 5)
    assert len(calls) == 10, "every block computes twice"
    check_equal(all_of(again.state), all_of(plain.state))


def test_recomputing_with_a_bias_that_learns() -> None:
    """T5's positions: what a layer keeps does not depend on which layer comes first."""
    sizes = {"vocab_size": 31, "width": 24, "depth": 2, "heads": 4, "mlp_width": 17}
    config = ModelConfig(family="decoder", max_length=23, position="relative", **sizes)
    plain = build_task(config, TaskConfig(kind="causal_lm"))
    again = copy.deepcopy(plain)
    checkpoint_activations(again)
    batch = replace(Batch.of([[1, 2, 3, 4, 5]] * 3), labels=torch.arange(15))
    for task in (plain, again):
        task(batch).losses["labels"].total.backward()
    for one, other in zip(plain.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_decay_is_for_matrices(tmp_path: Path) -> None:
    given = session(write_recipe(tmp_path, weight_decay=0.3), tmp_path / "run")
    (adam,) = given.state.optimisers
    for group in adam.param_groups:
        wanted = {0.3 if p.dim() >= 2 else 0.0 for p in group["params"]}
        assert wanted == {group["weight_decay"]}


def test_rates_and_clipping(tmp_path: Path) -> None:
    """A step's gradient is cut to `clip`; its rate is the schedule's."""
    given = session(write_recipe(tmp_path, max_grad_norm=0.01), tmp_path / "run")
    step = next(fit(given.state, given.rows, given.world))
    assert step.norm > 0.01 and step.rate == pytest.approx(0.01 / 3)
    assert given.state.weights.gradient.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_of_models_that_are_equally_right_the_surer_one_is_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = session(write_recipe(tmp_path), tmp_path / "run")
    given.state.train = given.state.train.model_copy(update={"best_by": "accuracy"})
    told = [(0.9, 0.3), (1.0, 0.5), (1.0, 0.1), (1.0, 0.2), (0.9, 0.05)]
    figures = iter({"accuracy": accuracy, "loss": loss} for accuracy, loss in told)
    monkeypatch.setattr(given, "measure", lambda: next(figures))
    assert [given._evaluate().better for _ in told] == [True, True, True, False, False]
