"""The products of products.cpp, compiled for this processor when they are first used.

They need Linux, a C++ compiler and a processor with instructions for dot products of bytes;
elsewhere torch's own kernels are used. Compiling takes some seconds, and the program is kept on
disk.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

SOURCE, SIMD = (Path(__file__).with_name(name) for name in ("products.cpp", "simd.h"))
COMPILERS = ("g++", "clang++", "c++")
# Before registers are chosen, GCC would order the instructions such that sums leave them.
FLAGS = ("-O3", "-std=c++20", "-shared", "-fPIC", "-fno-schedule-insns")
LOCK = threading.Lock()  # two threads may open models at the same time


class Processor(NamedTuple):
    """What depends on the instructions of simd.h."""

    architecture: str  # for the compiler
    block: int  # outputs whose weights are stored together
    added: int  # to int8 weights
    tokens: range  # for so many, our products in float32 are faster than torch's


# As Linux calls the instructions.
PROCESSORS = {
    "avx512_vnni": Processor("native", 64, 128, range(1, 33)),
    "asimddp": Processor("armv8.2-a+dotprod", 16, 0, range(2, 97)),
}

QuantizedLinear: TypeAlias = Callable[[Tensor, Tensor, int, Tensor | None], Tensor]
FloatLinear: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], Tensor]


def compiler(names: Sequence[str] = COMPILERS) -> str | None:
    """The C++ compiler of this machine: that of the variable CXX, or one of these names."""
    every = (os.environ.get("CXX", ""), *names)
    return next((path for name in every if (path := shutil.which(name))), None)


def works() -> bool:
    """Whether the products can be used here. Compiles them if they are not on disk."""
    return _problem() is None


def faster_than_torch(tokens: int) -> bool:
    """Whether `float_linear` can be used here, and is the faster one for so many tokens."""
    return works() and tokens in _processor().tokens


def quantized_linear(name: str) -> QuantizedLinear:
    """x, packed weights, the number of outputs, bias ↦ y, as int8_linear or int4_linear.

    RuntimeError where the products do not work.
    """
    linear: QuantizedLinear = _operator(name)
    return linear


def float_linear() -> FloatLinear:
    """x, weight, bias ↦ y in float32. RuntimeError where it does not work."""
    linear: FloatLinear = _operator("float_linear")
    return linear


def packed_int8(values: Tensor, scale: Tensor) -> Tensor:  # (out, in), (out, 1) → (blocks, bytes)
    """In each block, four inputs of an output side by side; then the scales."""
    weights = _blocks((values.int() + _processor().added).to(torch.uint8))  # (blocks, outputs, in)
    fours = weights.unflatten(2, (-1, 4)).transpose(1, 2)  # (blocks, in / 4, outputs, 4)
    return torch.cat([fours.flatten(1), _blocks(scale).view(torch.uint8).flatten(1)], 1)


def packed_int4(values: Tensor, scale: Tensor) -> Tensor:
    """(out, in), (out, groups, 2) → (blocks, bytes). In each group of 32 inputs of a block, the
    same with 8 added and input i + 16 in the upper half of the byte of input i; then the scales,
    then the offsets."""
    weights = _blocks((values + 8).to(torch.uint8)).unflatten(2, (-1, 2, 4, 4))
    lower, upper = weights.permute(3, 0, 2, 4, 1, 5)  # (blocks, groups, 4, outputs, 4)
    lines = _blocks(scale.flatten(1)).unflatten(2, (-1, 2)).permute(0, 2, 3, 1)
    numbers = lines.contiguous().view(torch.uint8)  # (blocks, groups, 2, bytes)
    halves: Tensor = lower | upper << 4
    return torch.cat([halves.flatten(2), numbers.flatten(2)], 2).flatten(1)


def _blocks(rows: Tensor) -> Tensor:  # (out, n) → (blocks, outputs, n)
    block = _processor().block
    padded: Tensor = F.pad(rows, (0, 0, 0, -len(rows) % block))
    return padded.reshape(-1, block, rows.shape[1]).contiguous()


def _operator(name: str) -> Any:
    if (problem := _problem()) is not None:
        raise RuntimeError(f"{SOURCE.name}: {problem}")
    return getattr(torch.ops.glassformer, name).default


def _problem() -> str | None:
    """Why the products do not work; None once they are loaded. It is found out once."""
    with LOCK:
        return _load()


@cache
def _load() -> str | None:
    try:
        program = _program()
        if not program.exists():
            _compile(program)
        try:
            torch.ops.load_library(program)
        except OSError:  # damaged, or for other libraries of the system
            _compile(program)
            torch.ops.load_library(program)
    except subprocess.CalledProcessError as error:
        return f"{error}: {error.stderr.decode(errors='replace')[-500:]}"
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        return str(error)
    for method in ("int8", "int4"):
        torch.library.register_fake(f"glassformer::{method}_linear", _empty_quantized)
    torch.library.register_fake("glassformer::float_linear", _empty_float)
    return None


def _empty_quantized(x: Tensor, packed: Tensor, outputs: int, bias: Tensor | None) -> Tensor:
    return x.new_empty(len(x), outputs)


def _empty_float(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty(len(x), len(weight))


def _program() -> Path:
    """The compiled products, for what they depend on. OSError if others may write there."""
    parts = (SOURCE.read_text(), SIMD.read_text(), torch.__version__, _instructions(), *_flags())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home, "glassformer", "products")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != Path("/proc/self").stat().st_uid or status.st_mode & 0o022:
        raise PermissionError(f"{folder} belongs to somebody else, or others may write to it")
    return folder / f"{hashlib.sha256('|'.join(parts).encode()).hexdigest()[:16]}.so"


def _compile(program: Path) -> None:
    if (command := compiler()) is None:
        raise FileNotFoundError("there is no C++ compiler")
    installed = Path(torch.__file__).parent
    with tempfile.TemporaryDirectory(dir=program.parent) as folder:
        whole = Path(folder, program.name)  # renamed at the end: another process may load it
        subprocess.run(  # noqa: S603 - our own source
            [
                command, *_flags(), f"-I{installed / 'include'}", SOURCE, "-o", whole,
                f"-L{installed / 'lib'}", "-ltorch_cpu", "-lc10",
            ],
            check=True, capture_output=True, timeout=300,
        )  # fmt: skip
        whole.replace(program)


def _flags() -> tuple[str, ...]:
    return *FLAGS, f"-march={_processor().architecture}"


def _processor() -> Processor:
    """RuntimeError if it is none of PROCESSORS."""
    known = (PROCESSORS[name] for name in _instructions().split() if name in PROCESSORS)
    if (processor := next(known, None)) is None:
        raise RuntimeError(f"this processor has no {' or '.join(PROCESSORS)}")
    return processor


@cache
def _instructions() -> str:
    """The instruction sets of the processor, as Linux names them on x86 and on ARM."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
