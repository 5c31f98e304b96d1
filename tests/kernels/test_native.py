"""Products that are compiled for this processor, where it has the instructions for them."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from glassformer.kernels import native
from glassformer.kernels.quantized import (
    Method,
    dequantized,
    integer,
    native_int4,
    native_int8,
    round_int4,
    round_int8,
)  # fmt: skip

HERE = native.compiler() is not None and any(
    name in native._instructions().split() for name in native.PROCESSORS
)
needs_native = pytest.mark.skipif(not HERE, reason="no dot products of bytes, or no C++ compiler")


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours - exact).norm() / exact.norm())


def tokens(rows: int, width: int, outliers: bool) -> torch.Tensor:
    x = torch.randn(rows, width) * torch.randint(1, 1_000, (rows, 1))
    x[::2, 3] *= 1_000 if outliers else 1
    return x


@needs_native
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 60),
    inputs=st.integers(1, 40),
    outputs=st.integers(1, 140),
    outliers=st.booleans(),
)
def test_int8_is_the_product_of_torchs_integers(
    seed: int, rows: int, inputs: int, outputs: int, outliers: bool
) -> None:
    torch.manual_seed(seed)
    values, scale = round_int8(torch.randn(outputs, 4 * inputs))
    x, bias = tokens(rows, 4 * inputs, outliers), torch.randn(outputs)
    ours, torchs = native_int8(values, scale), integer(values, scale)
    assert distance(ours(x, None), torchs(x, None)) < 1e-5
    assert distance(ours(x, bias), torchs(x, bias)) < 1e-5
    assert torch.equal(ours(x, bias)[-1:], ours(x[-1:], bias))


@needs_native
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 60),
    groups=st.integers(1, 5),
    outputs=st.integers(1, 140),
    outliers=st.booleans(),
)
def test_int4_is_near_the_product_of_its_weights(
    seed: int, rows: int, groups: int, outputs: int, outliers: bool
) -> None:
    torch.manual_seed(seed)
    values, scale = round_int4(torch.randn(outputs, 32 * groups))
    x, bias = tokens(rows, 32 * groups, outliers), torch.randn(outputs)
    ours, exact = native_int4(values, scale), dequantized(values, scale)
    identity = torch.eye(32 * groups, dtype=torch.int8)
    rounded = integer(identity, torch.ones(32 * groups, 1))(x, None)
    error = ours(x, None) - F.linear(rounded, exact)
    # An input between two integers may be rounded to the other one.
    assert error.norm() < 5e-3 * rounded.norm() * exact.norm()
    if rows * outputs >= 2_000:  # sums near 0 do not count among so many
        # Without outliers only the upper byte of an input is used.
        assert distance(ours(x, bias), F.linear(x, exact, bias)) < 0.02
    assert torch.equal(ours(x, bias)[-1:], ours(x[-1:], bias))


@needs_native
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 100),
    inputs=st.integers(1, 70),
    outputs=st.integers(1, 140),
)
def test_float32_is_torchs_product(seed: int, rows: int, inputs: int, outputs: int) -> None:
    torch.manual_seed(seed)
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    linear = native.float_linear()
    for each in (bias, None):
        exact = F.linear(x, weight, each)
        torch.testing.assert_close(linear(x, weight, each), exact, rtol=1e-4, atol=1e-4)


@needs_native
@pytest.mark.parametrize("method", ["int8", "int4"])
def test_what_is_not_a_number_stays_so(method: Method) -> None:
    weight, x = torch.randn(64, 96), torch.randn(3, 96)
    x[1, 7], x[2, 7] = torch.nan, torch.inf
    kernel, rounded = (native_int8, round_int8) if method == "int8" else (native_int4, round_int4)
    y = kernel(*rounded(weight))(x, None)
    assert y.isfinite().all(1).tolist() == [True, False, False]


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine where nothing has been compiled yet."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(native, "_load", native._load.__wrapped__)
    return tmp_path


def test_without_a_compiler_there_are_none(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(native, "_instructions", lambda: "flags : avx512_vnni")
    with pytest.raises(RuntimeError, match=r"products\.cpp: there is no C\+\+ compiler"):
        native.quantized_linear("int8_linear")
    assert not native.works() and not [*fresh.rglob("*.so")]


def test_on_another_processor_there_are_none(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_instructions", lambda: "flags : sse4_2 avx2")
    with pytest.raises(RuntimeError, match="this processor has no avx512_vnni or asimddp"):
        native.quantized_linear("int8_linear")
    assert not native.works() and not [*fresh.iterdir()]


def test_a_compiler_that_fails_leaves_nothing(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_instructions", lambda: "flags : avx512_vnni")
    compiler = fresh / "c++"
    compiler.write_text("#!/bin/sh\nexit 3\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(RuntimeError, match=r"products\.cpp: .*exit status 3"):
        native.quantized_linear("int8_linear")
    assert [path.name for path in fresh.rglob("*") if path.is_file()] == ["c++"]


def test_a_folder_of_everybody_is_not_trusted(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_instructions", lambda: "flags : avx512_vnni")
    folder = fresh / "glassformer" / "products"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(RuntimeError, match="products belongs to somebody else, or others may"):
        native.float_linear()


DAMAGED = """
from glassformer.kernels import native
native._program().write_bytes(b"")
print(native.works(), native._program().stat().st_size > 1_000, native._problem())
"""


@needs_native
def test_a_damaged_program_is_compiled_again(tmp_path: Path) -> None:
    """By a compiler that copies the program which is there already, since it is much faster."""
    assert native.works()
    compiler = tmp_path / "c++"
    compiler.write_text(
        f"#!/bin/sh\nwhile [ $1 != -o ]; do shift; done\ncp {native._program()} $2\n"
    )
    compiler.chmod(0o755)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "CXX": str(compiler)}
    answer = subprocess.run(
        [sys.executable, "-c", DAMAGED], check=True, capture_output=True, text=True, env=environment
    )
    assert answer.stdout.split() == ["True", "True", "None"]


@needs_native
def test_other_tensors_are_refused() -> None:
    x, weight, bias = torch.randn(2, 32), torch.randn(64, 32), torch.randn(64)
    linear, int8 = native.float_linear(), native.quantized_linear("int8_linear")
    packed = native.packed_int8(*round_int8(weight))
    wrong = [(x.double(), weight), (x[:, :16], weight), (x, torch.randn(32, 64).T), (x[0], weight)]
    for pair in wrong:
        with pytest.raises((RuntimeError, IndexError)):
            linear(*pair, None)
    for other in (x.double(), x[:, :16].contiguous(), x[:, :30].contiguous()):
        with pytest.raises(RuntimeError):
            int8(other, packed, 64, bias)
    with pytest.raises(RuntimeError):
        int8(x, packed, 64, bias[:63])
    with pytest.raises(RuntimeError):
        int8(x, packed, 65, None)
    assert int8(x[:0], packed, 64, bias).shape == linear(x[:0], weight, bias).shape == (0, 64)


@pytest.mark.skipif(native.compiler() is None, reason="no C++ compiler")
def test_the_source_refuses_other_processors() -> None:
    """Before it includes torch: this takes no time."""
    arm = platform.machine() in ("aarch64", "arm64")
    other = "-march=armv8-a" if arm else "-march=x86-64"
    command = [str(native.compiler()), "-fsyntax-only", other, str(native.SOURCE)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True)
    assert answer.returncode != 0 and "this processor has neither AVX-512 VNNI" in answer.stderr
