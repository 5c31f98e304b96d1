"""What is installed, on which device, with which attention kernels."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

from glassformer.model.kernels import GROUPED
from glassformer.precision import compute_dtype, dtype_name
from glassformer.version import __version__

PACKAGES = ("torch", "tokenizers", "safetensors", "numpy", "pydantic", "typer", "rich")


def describe() -> dict[str, dict[str, str]]:
    """Versions, device and attention kernels, by title."""
    has_mps = torch.backends.mps.is_available()
    device = "cuda" if torch.cuda.is_available() else "mps" if has_mps else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or device
    compute = compute_dtype(torch.bfloat16, device)
    return {
        "Versions": {
            "glassformer": __version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "Device": {
            "used by default": "cpu (write device=… to load a model elsewhere)",
            "best here": f"{device} ({name})",
            "threads": str(torch.get_num_threads()),
            "cpu instructions": torch.backends.cpu.get_cpu_capability(),
            "bfloat16 weights": f"compute in {dtype_name(compute.dtype)} ({compute.reason})",
        },
        f"Attention on {device}": _attention(device),
    }


def _attention(device: str) -> dict[str, str]:
    plain = "scaled_dot_product_attention"
    ragged = f"{plain}, one text at a time" if device == "cpu" else f"{plain}, padded"
    grouped = "in the kernel" if GROUPED else "repeated"
    varlen = f"torch's varlen_attn (grouped heads {grouped})"
    own = f"our Triton kernel; without Triton, or for long texts, {varlen}"
    return {
        "half precision, ragged texts": own if device == "cuda" else ragged,
        "float32, ragged texts": ragged,
        "one text, or even lengths": f"{plain}, no mask",
        "with a recorder": "the open arithmetic",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
