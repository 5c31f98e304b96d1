"""Muon moves as torch's own, which takes one matrix after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer import precision
from glassformer.train.optim.muon import Muon

SHAPES = [(24, 8), (8, 24), (16, 16), (24, 8), (1, 6), (16, 16), (8, 24)]


def moved(kind: type[torch.optim.Muon], **settings: float | str) -> list[Tensor]:
    draw = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=draw) for shape in SHAPES]
    pulls = [[torch.randn(shape, generator=draw) for shape in SHAPES] for _ in range(4)]
    weights = [torch.nn.Parameter(each.clone()) for each in start]
    optimiser = kind(weights, **settings)  # type: ignore[arg-type]
    for number, pull in enumerate(pulls):
        for weight, gradient in zip(weights, pull, strict=True):
            weight.grad = gradient
        weights[2].grad = None if number == 1 else weights[2].grad  # one that a row did not touch
        optimiser.step()
    assert set(optimiser.state[weights[0]]) == {"momentum_buffer"}
    return [weight.detach() - was for weight, was in zip(weights, start, strict=True)]


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_it_moves_as_torchs_own(decay: float) -> None:
    theirs = moved(torch.optim.Muon, lr=0.02, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    ours = moved(Muon, lr=0.02, weight_decay=decay)
    other = moved(Muon, lr=0.025, weight_decay=decay)
    for a, b, c in zip(ours, theirs, other, strict=True):
        assert (a - b).norm() < 0.05 * b.norm()  # torch's own rounds to bfloat16
        assert (c - b).norm() > 0.1 * b.norm()


class Products(TorchDispatchMode):
    """The dtypes of all batched matrix products."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if "bmm" in func.name():
            self.dtypes.add(result.dtype)
        return result


@pytest.mark.filterwarnings("ignore:.*mkldnn")
@pytest.mark.parametrize(("instructions", "dtype"), [("", torch.float32), ("AMX", torch.bfloat16)])
def test_it_multiplies_in_bfloat16_only_where_the_cpu_can(
    instructions: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU that emulates bfloat16 products takes a hundred times as long for a step."""
    monkeypatch.setattr(precision, "cpu_bfloat16", lambda: instructions)
    with Products() as products:
        moved(Muon, lr=0.02)
    assert products.dtypes == {dtype}
