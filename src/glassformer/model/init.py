"""Initial weights: a table of rules; the first pattern that a parameter's name matches applies."""

from __future__ import annotations

import math
import re

import torch
from torch import nn

from glassformer.config import ModelConfig

# pattern of the name → how it is initialised; "normal" has the config's init_std
RULES = (
    (r"norm\.weight$", "one"),
    (r"bias$", "zero"),
    (r"(attention|cross)\.output\.weight$|mlp\.down\.weight$", "residual"),
    (r"", "normal"),
)


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Initialise every parameter in place, from torch's random generator."""
    # Each block adds to the residual stream twice: smaller weights keep a deep sum in scale.
    residual = config.init_std / math.sqrt(2 * max(1, config.depth))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rule = next(rule for pattern, rule in RULES if re.search(pattern, name))
            match rule:
                case "one":
                    parameter.fill_(0 if config.norm_plus_one else 1)
                case "zero":
                    parameter.zero_()
                case "residual":
                    parameter.normal_(
                        std=residual if config.norm_place == "pre" else config.init_std
                    )
                case _:
                    parameter.normal_(std=config.init_std)


def materialise(
    model: nn.Module,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> None:
    """Allocate memory for parameters on the meta device; buffers have theirs already."""
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if p.is_meta:  # its empty_like runs in Python: half a second a model
                real = torch.empty(p.shape, device=device or "cpu", dtype=dtype or p.dtype)
                setattr(module, name, nn.Parameter(real))
    model.to(device=device, dtype=dtype)
