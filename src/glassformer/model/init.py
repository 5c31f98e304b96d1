"""Fresh weights: one table of rules, the first that fits a parameter's name counts."""

from __future__ import annotations

import math
import re

import torch
from torch import nn

from glassformer.config import ModelConfig

# name of the parameter → what it starts as; "normal" has the config's init_std
RULES = (
    (r"norm\.weight$", "one"),
    (r"bias$", "zero"),
    (r"(attention|cross)\.output\.weight$|mlp\.down\.weight$", "residual"),
    (r"", "normal"),
)


def initialise(model: nn.Module, config: ModelConfig) -> None:
    """Draw every parameter anew from torch's random generator."""
    # Each block adds to the stream twice: smaller steps keep a deep stack's sum at one size.
    residual = config.init_std / math.sqrt(2 * max(1, config.depth))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            rule = next(rule for pattern, rule in RULES if re.search(pattern, name))
            match rule:
                case "one":
                    parameter.fill_(1)
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
    """Give parameters made on the meta device memory; tables (buffers) are real already."""
    for module in model.modules():
        for name, p in module.named_parameters(recurse=False):
            if p.is_meta:  # empty_like is made in Python then: half a second to load
                real = torch.empty(p.shape, device=device or "cpu", dtype=dtype or p.dtype)
                setattr(module, name, nn.Parameter(real))
    model.to(device=device, dtype=dtype)
