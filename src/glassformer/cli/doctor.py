"""`glassformer doctor`: what is installed, on which device, with which kernels."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version

import typer
from rich.console import Console
from rich.table import Table

PACKAGES = ("torch", "tokenizers", "safetensors", "numpy", "pydantic", "typer", "rich")


def run(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """Tell versions, device and the attention kernels in use."""
    facts = gather()
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    console = Console()
    for title, rows in facts.items():
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        table.add_column(style="cyan", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, value)
        console.print(table, end="\n\n")


def gather() -> dict[str, dict[str, str]]:
    import torch

    from glassformer.precision import compute_dtype, dtype_name
    from glassformer.version import __version__

    kind = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    name = torch.cuda.get_device_name() if kind == "cuda" else platform.processor() or kind
    compute = compute_dtype(torch.bfloat16, kind)
    return {
        "Versions": {
            "glassformer": __version__,
            "python": platform.python_version(),
            **{package: _version(package) for package in PACKAGES},
        },
        "Device": {
            "used by default": "cpu (write device=… to load a model elsewhere)",
            "best here": f"{kind} ({name})",
            "threads": str(torch.get_num_threads()),
            "cpu instructions": torch.backends.cpu.get_cpu_capability(),
            "bfloat16 weights": f"compute in {dtype_name(compute.dtype)} ({compute.reason})",
        },
        f"Attention on {kind}": _attention(kind),
    }


def _attention(kind: str) -> dict[str, str]:
    from glassformer.model.kernels import GROUPED

    plain = "scaled_dot_product_attention"
    ragged = f"{plain}, one text at a time" if kind == "cpu" else f"{plain}, padded"
    grouped = "in the kernel" if GROUPED else "repeated"
    varlen = f"torch's varlen_attn (grouped heads {grouped})"
    own = f"our Triton kernel; without Triton, or for long texts, {varlen}"
    return {
        "half precision, ragged texts": own if kind == "cuda" else ragged,
        "float32, ragged texts": ragged,
        "one text, or even lengths": f"{plain}, no mask",
        "with a recorder": "the open arithmetic",
    }


def _has_mps() -> bool:
    import torch

    return torch.backends.mps.is_available()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
