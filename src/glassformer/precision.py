"""The compute dtype of a model: the only module that decides it.

Storage dtype and compute dtype are separate. Weights that are stored in bfloat16 compute in
bfloat16 where the processor has instructions for it, and in float32 elsewhere: a CPU without them
emulates every product, up to 400 times slower. Results are float32 either way.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from glassformer.errors import ConfigError, shown

HALF = (torch.bfloat16, torch.float16)
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
          "float64": torch.float64}  # fmt: skip
# The capabilities of `torch.cpu.get_capabilities` that mean bfloat16 products in hardware.
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "bf16": "ARM BF16"}


@dataclass(frozen=True)
class ComputeDtype:
    dtype: torch.dtype
    reason: str


def compute_dtype(stored: torch.dtype, device: torch.device | str) -> ComputeDtype:
    """The dtype in which weights stored as `stored` compute on `device`, and why."""
    kind = torch.device(device).type
    if stored not in HALF:
        return ComputeDtype(stored, "as stored")
    if kind == "cpu" and stored == torch.float16:
        return ComputeDtype(torch.float32, "float16 is slow on a CPU")
    if stored == torch.bfloat16:
        fast, reason = _fast_bfloat16(kind)
        return ComputeDtype(stored if fast else torch.float32, reason)
    return ComputeDtype(stored, "as stored")


def widen(tensor: Tensor) -> Tensor:
    """At least float32: what a caller gets is a type that every other library knows."""
    return tensor.float() if tensor.dtype in HALF else tensor


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read_dtype(dtype: torch.dtype | str) -> torch.dtype:
    """A dtype by its name; ConfigError if a model cannot compute in it."""
    known = DTYPES.get(dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtype
    if known is None or known not in DTYPES.values():
        raise ConfigError(f"dtype = {shown(dtype)}: write one of {', '.join(DTYPES)}")
    return known


def read_device(device: torch.device | str) -> torch.device:
    """A device by its name; ConfigError if this machine has none of this name."""
    try:
        known = torch.device(device)
        torch.empty(0, device=known)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError):
        usable = ["cpu"]
        usable += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        usable += ["mps"] if torch.backends.mps.is_available() else []
        raise ConfigError(
            f"device = {shown(device)} is not on this machine: write {' or '.join(usable)}"
        ) from None
    return known


def _fast_bfloat16(kind: str) -> tuple[bool, str]:
    if kind == "cpu":
        name = cpu_bfloat16()
        return bool(name), f"this CPU has {name}" if name else "this CPU has no bfloat16 products"
    if kind == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    elif kind == "mps":
        fast = int(platform.mac_ver()[0].partition(".")[0] or 0) >= 14
    else:
        fast = True
    return fast, f"this {kind} device has {'' if fast else 'no '}bfloat16 products"


@cache
def cpu_bfloat16() -> str:
    """The instructions this CPU has for bfloat16 products; empty if it has none."""
    if not hasattr(torch.cpu, "get_capabilities"):  # an older torch: float32 is always right
        return ""
    capabilities = torch.cpu.get_capabilities()
    on_x86 = "bf16" not in capabilities
    if on_x86 and torch.backends.cpu.get_cpu_capability() != "AVX512":  # torch does not use it
        return ""
    return next((text for name, text in INSTRUCTIONS.items() if capabilities.get(name)), "")
