"""GELU without a GPU is torch's own; our kernel is tested in tests/model/test_cuda_training.py."""

import pytest
import torch
from torch.nn import functional as F

from glassformer.kernels.gelu import FEWEST, gelu


@pytest.mark.parametrize("tanh", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_on_a_cpu_it_is_that_of_torch(tanh: bool, compiled: bool) -> None:
    x = torch.randn(FEWEST, 3)
    expected = F.gelu(x, approximate="tanh" if tanh else "none")
    call = torch.compile(gelu, backend="eager", fullgraph=True) if compiled else gelu
    assert torch.equal(call(x, tanh=tanh), expected)
