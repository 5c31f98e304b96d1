"""Dropout that is compiled draws its own chance: as even and as unrelated as the usual one."""

import pytest
import torch

from glassformer.model.block import Dropout

SHAPE = (251, 509)


def dropped(rate: float, *, compiled: bool, seed: int = 0, calls: int = 1) -> list[torch.Tensor]:
    torch._dynamo.reset()
    module = Dropout(rate).train()
    call = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    torch.manual_seed(seed)
    return [call(torch.ones(SHAPE)) for _ in range(calls)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_as_many_fall_as_the_rate_says(rate: float, compiled: bool) -> None:
    (x,) = dropped(rate, compiled=compiled)
    count = x.numel()
    spread = 4 * (rate * (1 - rate) / count) ** 0.5
    assert abs((x == 0).double().mean().item() - rate) < spread
    assert torch.allclose(x[x != 0], torch.tensor(1 / (1 - rate)))


@pytest.mark.parametrize("compiled", [False, True])
def test_neighbours_and_calls_know_nothing_of_each_other(compiled: bool) -> None:
    """Correlations over rows, columns, strides and between two calls are those of pure chance."""
    first, second = (x.flatten() - 1 for x in dropped(0.5, compiled=compiled, calls=2))
    bound = 4.5 / len(first) ** 0.5
    assert abs((first * second).mean()) < bound
    for lag in (1, 2, 3, 4, 8, 16, 64, 256, 509, 1018, 4096, 65536):
        assert abs((first[lag:] * first[:-lag]).mean()) < bound * 1.5, lag
    ones = (first.view(SHAPE) > 0).double()
    for axis in (0, 1):
        sums = ones.sum(axis)
        expected = SHAPE[axis] / 4  # of a binomial
        assert 0.7 < sums.var().item() / expected < 1.3


def test_the_seed_decides() -> None:
    same, again = dropped(0.5, compiled=True), dropped(0.5, compiled=True)
    assert torch.equal(same[0], again[0])
    assert not torch.equal(same[0], dropped(0.5, compiled=True, seed=1)[0])


def test_the_gradient_falls_where_the_number_fell() -> None:
    torch._dynamo.reset()
    call = torch.compile(Dropout(0.3).train(), backend="aot_eager", fullgraph=True)
    x = torch.ones(SHAPE, requires_grad=True)
    y = call(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("compiled", [False, True])
def test_nothing_falls_without_training(compiled: bool) -> None:
    module = Dropout(0.9).eval()
    call = torch.compile(module, backend="aot_eager", fullgraph=True) if compiled else module
    x = torch.randn(SHAPE)
    assert torch.equal(call(x), x)
