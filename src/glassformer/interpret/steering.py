"""Steering: add the difference of two means to the stream, and the model writes differently.

v = mean of a block's output over texts of one kind − the same over texts of another kind.
Turner et al. 2023, "Activation addition"; Rimsky et al. 2024, "Steering Llama 2 via contrastive
activation addition".
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.glass import Edit
from glassformer.interpret.files import load_tensors, save_tensors
from glassformer.loaded import Model, record

FORMAT = "glassformer-steering-1"


@dataclass(frozen=True, eq=False)
class SteeringVector:
    """A direction of the output of one block."""

    vector: Tensor  # (C,)
    stack: str
    layer: int

    def edit(self, strength: float = 1.0) -> Edit:
        """For `record`: the vector, times `strength`, added at every token."""

        def steered(x: Tensor) -> Tensor:
            if x.shape[-1] != len(self.vector):
                raise ConfigError(
                    f"this steering vector has {len(self.vector)} entries, and the model's vectors "
                    f"have {x.shape[-1]}: make one with steering_vector for this model"
                )
            return x + strength * self.vector.to(x)

        return {f"{self.stack}.blocks.{self.layer}.out": steered}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file."""
        save_tensors(
            path, FORMAT, {"vector": self.vector}, {"stack": self.stack, "layer": self.layer}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SteeringVector:
        """Read a file that `save` wrote."""
        tensors, about = load_tensors(path, FORMAT, {"vector": 1})
        stack, layer = about.get("stack"), about.get("layer")
        if stack not in ("encoder", "decoder") or type(layer) is not int:
            raise InputError(f"{path}: stack = {stack!r}, layer = {layer!r}: not a block's place")
        return cls(tensors["vector"], stack, layer)


def steering_vector(
    model: Model, towards: Iterable[Any], away: Iterable[Any], *, layer: int, stack: str = "decoder"
) -> SteeringVector:
    """The difference of means of a block's output between two kinds of texts.

    Args:
        towards: texts, as `record` takes them, of the kind that the model shall write
        away: texts of the other kind
        layer: whose output is taken
        stack: encoder or decoder
    """
    body = getattr(model.task.backbone, stack, None)
    if body is None or not 0 <= layer < len(body.blocks):
        most = "no such stack" if body is None else f"layers 0 to {len(body.blocks) - 1}"
        raise ConfigError(f"stack = {stack!r}, layer = {layer}: this model has {most}")
    name = f"{stack}.blocks.{layer}.out"
    means = []
    for texts in (list(towards), list(away)):
        if not texts:
            raise InputError("steering needs texts of both kinds: write at least one of each")
        rows = [record(model, text, keep=name)[name].mean(0) for text in texts]
        means.append(torch.stack(rows).mean(0))
    return SteeringVector(means[0] - means[1], stack, layer)
