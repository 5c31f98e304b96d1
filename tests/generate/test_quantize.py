"""int8 and int4 weights: close to the float ones, and the same alone or in a batch."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import nn

import glassformer as gf
from generate.test_engine import MODELS, PROMPTS, sources
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.generate.engine import Engine
from glassformer.glass import value_weighted
from glassformer.kernels import native, quantized
from glassformer.kernels.quantized import (
    KERNELS,
    MANY_ROWS,
    METHODS,
    Method,
    dequantized,
    fastest,
    from_nibbles,
    integer,
    measured,
    nibbles,
    plain,
    round_int4,
    round_int8,
)  # fmt: skip
from glassformer.loaded import Model
from glassformer.tasks.quantize import QuantLinear, quantization, quantize
from sampling import mostly_slow

ERRORS = {"int8": 0.02, "int4": 0.12}  # of a product of random numbers, by its norm


def distance(ours: torch.Tensor, whole: torch.Tensor) -> float:
    return float((ours - whole).norm() / whole.norm())


def rounded(method: Method, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return round_int4(weight) if method == "int4" else round_int8(weight)


def tokens(rows: int, width: int) -> torch.Tensor:
    """Vectors, each of its own size."""
    return torch.randn(rows, width) * torch.randint(1, 1_000, (rows, 1))


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10_000), rows=st.integers(1, 9), bias=st.booleans())
def test_a_layer_is_near_the_whole_one(method: Method, seed: int, rows: int, bias: bool) -> None:
    torch.manual_seed(seed)
    linear = nn.Linear(64, 32, bias=bias).requires_grad_(False)
    x = tokens(rows, 64)
    ours = QuantLinear(linear.weight, linear.bias, method)
    assert ours.method == method
    for i in range(rows):
        assert distance(ours(x)[i], linear(x[i])) < ERRORS[method] + 0.02


@pytest.mark.parametrize("method", METHODS)
@given(seed=st.integers(0, 10_000), rows=st.integers(2, 2 * MANY_ROWS), outlier=st.booleans())
def test_a_token_alone_is_bit_for_bit_the_same(
    method: Method, seed: int, rows: int, outlier: bool
) -> None:
    torch.manual_seed(seed)
    layer = QuantLinear(torch.randn(32, 96), torch.randn(32), method)
    x = tokens(rows, 96)
    x[0, 5] *= 1_000 if outlier else 1
    for i in range(rows):
        assert torch.equal(layer(x)[i], layer(x[i : i + 1])[0])


@pytest.mark.parametrize("method", METHODS)
def test_every_kernel_computes_the_same_product(method: Method) -> None:
    """Also those that another processor would choose: torch has a slow way of most of them here."""
    torch.manual_seed(0)
    values, scale = rounded(method, torch.randn(64, 96) * 0.05)
    bias, x = torch.randn(64), torch.randn(5, 96)
    exact = plain(values, scale)(x, bias)
    for name in measured(method):
        ours = KERNELS[method][name](values, scale)
        assert distance(ours(x, bias), exact) < 0.01, name
        assert distance(ours(x, None), exact - bias) < 0.015, name
        zero = ours(torch.zeros(1, 96), bias)[0]
        torch.testing.assert_close(zero, bias, rtol=1e-2, atol=1e-2, msg=name)


def test_packed_weights_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    values, scale = round_int8(torch.randn(48, 96))
    x, bias = tokens(2 * MANY_ROWS, 96), torch.randn(48)
    x[3] = 0.0
    packed = integer(values, scale)(x, bias)
    monkeypatch.setattr(quantized, "_packs", lambda: False)
    assert torch.equal(packed, integer(values, scale)(x, bias))
    assert torch.equal(packed[3], bias)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_compiled_product_is_the_same(method: Method) -> None:
    """With and without tokens that have outliers, also by the kernels of another processor."""
    x = tokens(MANY_ROWS - 1, 96)
    outliers = x.clone()
    outliers[::2, 5] = 100 * x.abs().amax()
    for name in measured(method):
        multiply = KERNELS[method][name](*rounded(method, torch.randn(64, 96)))
        compiled = torch.compile(multiply, fullgraph=True, dynamic=False)
        for rows in (x, outliers):
            y = multiply(rows, None)
            torch.testing.assert_close(compiled(rows, None), y, rtol=1e-4, atol=1e-4, msg=name)


def test_the_kernel_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if native.works():
        assert fastest("int8") == fastest("int4") == "native"
    monkeypatch.setattr(native, "works", lambda: False)
    times = {method: measured(method) for method in METHODS}
    assert all("plain" in each for each in times.values())
    fastest.cache_clear()
    calls: list[str] = []

    def counted(method: Method) -> dict[str, float]:
        calls.append(method)
        return times[method]

    monkeypatch.setattr(quantized, "measured", counted)
    chosen = [fastest("int8"), fastest("int8")]
    assert calls == ["int8"] and chosen[0] == min(times["int8"], key=lambda n: times["int8"][n])
    fastest.cache_clear()


def test_a_torch_without_the_kernels_multiplies_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "_int_mm")

    def missing(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(native, "quantized_linear", missing)

    ops = ("_convert_weight_to_int4pack_for_cpu", "_dyn_quant_pack_4bit_weight")
    for name in ops:
        monkeypatch.setattr(torch.ops.aten, name, missing)
    assert [[*measured(method)] for method in METHODS] == [["plain"], ["plain"]]


@given(seed=st.integers(0, 10_000))
def test_rounding_to_int4_is_better_than_to_the_nearest(seed: int) -> None:
    torch.manual_seed(seed)
    weight = torch.randn(32, 64)
    values, scale = round_int4(weight)
    assert values.min() >= -8 and values.max() <= 7
    assert torch.equal(from_nibbles(nibbles(values)), values)
    groups = weight.unflatten(1, (-1, 32))
    low, high = groups.aminmax(dim=2, keepdim=True)
    step = (high - low) / 15
    nearest = (((groups - low) / step).round() * step + low).flatten(1)
    assert distance(dequantized(values, scale), weight) < distance(nearest, weight)


def test_rounding_to_int4_keeps_what_is_on_such_a_grid() -> None:
    torch.manual_seed(0)
    grid = torch.randint(0, 16, (32, 64)).float()
    grid[:, ::32], grid[:, 1::32] = 0.0, 15.0
    for weight in (0.25 * grid - 1.5, torch.zeros(32, 32), torch.full((32, 32), 0.5)):
        torch.testing.assert_close(dequantized(*round_int4(weight)), weight)


def test_weights_alone_are_rounded_on_other_devices() -> None:
    weight, bias = torch.randn(11, 32), torch.randn(11)
    layer = QuantLinear(weight, bias, "int4").to("meta", torch.bfloat16)
    assert layer.method == "int8" and layer.scale.dtype == torch.float32  # 11 rows do not fit
    assert layer(torch.randn(5, 32, device="meta", dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["decoder", "seq2seq"])
def test_a_quantized_model_writes_nearly_the_same(name: str, method: Method) -> None:
    task = copy.deepcopy(MODELS[name]).float()
    read = {"prompts": PROMPTS, "sources": sources(task, [0, 1, 2, 3])}
    whole = Engine(task, slots=4, capacity=9, memory_capacity=5).read(**read)
    quantize(task, method)
    assert not any(isinstance(module, nn.Linear) for module in task.modules())
    ours = Engine(task, slots=4, capacity=9, memory_capacity=5).read(**read)
    assert 0 < distance(ours, whole) < 0.3


@pytest.fixture(scope="module", params=mostly_slow(reversed(METHODS)))
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """gf-en-ru, which is tied, in this method."""
    folder = tmp_path_factory.mktemp("quantized") / str(request.param)
    gf.load("gf-en-ru").quantize(request.param).save(folder)
    return folder


TEXTS = ["The cat sat on the mat.", "I read a book yesterday.", "It is cold."]


def test_a_saved_model_is_the_same(saved: Path, tmp_path: Path) -> None:
    model, opened = gf.load("gf-en-ru").quantize(saved.name), gf.load(saved)
    assert quantization(opened.task) == saved.name and saved.name in repr(opened)
    assert repr(opened).split(" parameters")[0] == repr(gf.load("gf-en-ru")).split(" parameters")[0]
    assert [*map(str, opened.translate(TEXTS))] == [*map(str, model.translate(TEXTS))]
    opened.export(tmp_path / "again")
    files = [load_file(folder / "model.safetensors") for folder in (saved, tmp_path / "again")]
    assert files[0].keys() == files[1].keys()
    assert all(torch.equal(tensor, files[1][name]) for name, tensor in files[0].items())


def test_alone_and_in_a_batch_the_words_are_the_same(saved: Path) -> None:
    model = gf.load(saved)
    together = [*map(str, model.translate(TEXTS))]
    assert [str(model.translate(text)[0]) for text in TEXTS] == together


def test_a_damaged_folder_is_refused_by_name(saved: Path, tmp_path: Path) -> None:
    def damaged(change: dict[str, torch.Tensor], config: dict[str, object] | None = None) -> Path:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        folder.mkdir()
        for file in saved.iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        tensors = load_file(saved / "model.safetensors") | change
        tensors = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
        save_file(tensors, folder / "model.safetensors")
        settings = json.loads((saved / "config.json").read_text()) | (config or {})
        (folder / "config.json").write_text(json.dumps(settings))
        return folder

    name = "backbone.decoder.blocks.0.mlp.up.weight"
    weight = load_file(saved / "model.safetensors")[name]
    wrong = {
        "is missing": {name: torch.zeros(0)},
        "has shape": {name: weight[:1].clone()},
        "has no such tensor": {"more": torch.ones(1)},
        "has dtype": {name: weight.float()},
    }
    for words, change in wrong.items():
        with pytest.raises(CheckpointError, match=words) as refused:
            gf.load(damaged(change))
        assert next(iter(change)) in str(refused.value)
    other = {"quantization_config": {"quant_method": "glassformer", "method": "int2"}}
    with pytest.raises(CheckpointError, match=r"quantization_config.method = 'int2'.+int8 or int4"):
        gf.load(damaged({}, other))


def test_what_was_rounded_is_not_rounded_again_or_exported_to_onnx(tmp_path: Path) -> None:
    model = Model(copy.deepcopy(MODELS["decoder"]).float()).quantize("int8")
    with pytest.raises(InputError, match="int8 already"):
        model.quantize("int4")
    with pytest.raises(InputError, match="export_onnx: the weights are int8"):
        model.export_onnx(tmp_path / "model")
    with pytest.raises(ConfigError, match="quantize\\('int2'\\): write 'int8' or 'int4'"):
        Model(copy.deepcopy(MODELS["decoder"]).float()).quantize("int2")


def test_what_looks_at_the_weights_refuses_rounded_ones() -> None:
    model = gf.load("gf-encoder").quantize("int8")
    trace = gf.record(model, "The cat sat on the mat.")
    with pytest.raises(InputError, match=r"blocks.0.attention: its weights are int8"):
        value_weighted(model, trace, "encoder")
