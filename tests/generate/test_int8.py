"""int8 weights: close to the float ones, and the same alone or in a batch."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from generate.test_engine import MODELS, PROMPTS, sources
from glassformer.errors import InputError
from glassformer.generate.engine import Engine
from glassformer.generate.int8 import Int8Linear, round_rows, to_int8
from glassformer.loaded import Model


def near(ours: torch.Tensor, whole: torch.Tensor) -> float:
    return float((ours - whole).norm() / whole.norm())


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 9), bias=st.booleans())
def test_a_map_is_near_the_whole_one(seed: int, rows: int, bias: bool) -> None:
    torch.manual_seed(seed)
    linear = nn.Linear(64, 37, bias=bias).requires_grad_(False)
    x = torch.randn(rows, 64) * torch.randint(1, 1_000, (rows, 1))  # each token of its own size
    ours = Int8Linear(linear.weight, linear.bias)(x)
    for i in range(rows):
        assert near(ours[i], linear(x[i])) < 0.02


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 9))
def test_a_token_alone_is_bit_for_bit_the_same(seed: int, rows: int) -> None:
    torch.manual_seed(seed)
    made = Int8Linear(torch.randn(11, 32), torch.randn(11))
    x = torch.randn(rows, 32) * torch.randint(1, 1_000, (rows, 1))
    for i in range(rows):
        assert torch.equal(made(x)[i], made(x[i : i + 1])[0])


def test_zeros_and_the_product_without_an_integer_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    weight, bias, x = torch.randn(11, 32), torch.randn(11), torch.randn(5, 32)
    made = Int8Linear(weight, bias)
    torch.testing.assert_close(made(torch.zeros(1, 32))[0], bias)
    rounded, scale = round_rows(weight)
    torch.testing.assert_close(made(x), F.linear(x, rounded * scale, bias), rtol=1e-3, atol=1e-3)
    with_kernel = made(x)
    monkeypatch.delattr(torch, "_int_mm")
    torch.testing.assert_close(made(x), with_kernel)


def test_weights_alone_are_rounded_on_other_devices() -> None:
    weight, bias = torch.randn(11, 32), torch.randn(11)
    made = Int8Linear(weight, bias).to("meta")
    assert made(torch.randn(5, 32, device="meta", dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["decoder", "seq2seq"])
def test_a_model_of_bytes_writes_nearly_the_same(name: str) -> None:
    task = copy.deepcopy(MODELS[name]).float()
    read = {"prompts": PROMPTS, "sources": sources(task, [0, 1, 2, 3])}
    whole = Engine(task, slots=4, capacity=9, memory_capacity=5).read(**read)
    to_int8(task)
    assert not any(isinstance(module, nn.Linear) for module in task.modules())
    ours = Engine(task, slots=4, capacity=9, memory_capacity=5).read(**read)
    assert 0 < near(ours, whole) < 0.1


def test_what_was_rounded_is_not_saved(tmp_path: Path) -> None:
    model = Model(copy.deepcopy(MODELS["decoder"]).float()).int8()
    for call in (model.save, model.export):
        with pytest.raises(InputError, match="before"):
            call(tmp_path / "model")
    assert not (tmp_path / "model").exists()
