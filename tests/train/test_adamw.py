"""AdamW moves as torch's own, bit by bit, and asks for less."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.train.optim.adamw import AdamW
from glassformer.train.optim.muon import Muon

SHAPES = [(24, 7), (7,), (16, 16), (1,), (5, 3, 2)]


def moved(kind: type[torch.optim.Optimizer], steps: int = 5) -> list[Tensor]:
    """Weights and all that is remembered of them."""
    draw = torch.Generator().manual_seed(0)
    weights = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in SHAPES]
    groups = [
        {"params": weights[:2], "weight_decay": 0.3},
        {"params": weights[2:], "weight_decay": 0.0},
    ]
    optimiser = kind(groups, lr=0.02, betas=(0.8, 0.95), eps=1e-6, fused=True)  # type: ignore[call-arg]
    for number in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = 0.02 / (number + 1)
        for i, weight in enumerate(weights):
            weight.grad = torch.randn(weight.shape, generator=draw)
            if i == 2 and number < 2:  # one that the first rows did not touch
                weight.grad = None
        optimiser.step()
    known = [value for weight in weights for value in optimiser.state[weight].values()]
    return [weight.detach() for weight in weights] + known


def test_it_moves_as_torchs_own() -> None:
    ours, theirs, fewer = moved(AdamW), moved(torch.optim.AdamW), moved(AdamW, steps=4)
    assert len(ours) == len(theirs) == 4 * len(SHAPES)
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(ours, fewer, strict=True))


class Calls(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, call, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.count += 1
        return call(*args, **(kwargs or {}))


@pytest.mark.parametrize(("kind", "most"), [(AdamW, 4), (Muon, 40)])
def test_many_parameters_take_no_more_calls(kind: type[AdamW | Muon], most: int) -> None:
    """A GPU waits for each call, so a step's must not grow with the number of layers."""
    counts = []
    for size in (2, 20):
        weights = [torch.nn.Parameter(torch.ones(8, 4)) for _ in range(size)]
        optimiser = kind(weights, lr=0.1)
        for weight in weights:
            weight.grad = torch.ones(8, 4)
        optimiser.step()  # the first one makes what is remembered
        with Calls() as calls:
            optimiser.step()
        counts.append(calls.count)
    assert counts[0] == counts[1] <= most


def test_training_loads_no_compiler() -> None:
    """A run that is not compiled starts three seconds sooner."""
    code = """
import sys, torch
from glassformer.config import ModelConfig, TaskConfig
from glassformer.fields import TrainConfig
from glassformer.tasks import build_task
from glassformer.train.state import State
sizes = {"vocab_size": 31, "width": 8, "depth": 1, "heads": 2, "mlp_width": 8, "max_length": 8}
task = build_task(ModelConfig(family="decoder", **sizes), TaskConfig(kind="causal_lm"))
state = State(task, TrainConfig(steps=1, optimiser="muon"))
state.weights.lend()
for optimiser in state.optimisers:
    optimiser.step()
found = [name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules]
print(*found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
