"""GELU by one exponential is GELU, and so is its derivative."""

import pytest
import torch
from torch.nn import functional as F

from glassformer.kernels.gelu import Gelu, gelu


@pytest.mark.parametrize("tanh", [False, True])
def test_values_and_slopes(tanh: bool) -> None:
    x = torch.linspace(-12, 12, 10_001, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    y = Gelu.apply(x, tanh)
    right = F.gelu(exact, approximate="tanh" if tanh else "none")
    torch.testing.assert_close(y.double(), right, rtol=0, atol=1e-6)
    slopes = [torch.autograd.grad(each.sum(), at)[0] for each, at in ((y, x), (right, exact))]
    torch.testing.assert_close(slopes[0].double(), slopes[1], rtol=0, atol=3e-6)
    other = F.gelu(exact, approximate="none" if tanh else "tanh")
    assert (y - other).abs().max() > 1e-4  # the two differ by more than our error


@pytest.mark.parametrize("tanh", [False, True])
def test_it_compiles_whole_and_on_a_cpu_torch_has_its_own(tanh: bool) -> None:
    x = torch.randn(7, 11)
    expected = F.gelu(x, approximate="tanh" if tanh else "none")
    assert torch.equal(gelu(x, tanh=tanh), expected)
    whole = torch.compile(lambda x: Gelu.apply(x, tanh), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(whole(x), expected, rtol=0, atol=1e-6)
