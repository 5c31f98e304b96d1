"""The layers that sentence-transformers has after pooling, with their weights."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.nn import functional as F

from glassformer.errors import CheckpointError, shown
from glassformer.inference.sentence_files import EmbeddingConfig, settings
from glassformer.tensor_files import read_header

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Identity": lambda x: x,
    "Tanh": torch.tanh,
    "ReLU": F.relu,
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Sigmoid": torch.sigmoid,
}
WEIGHT, BIAS = "linear.weight", "linear.bias"


class Dense(nn.Module):
    """act(W x + b) of a vector."""

    def __init__(self, tensors: Mapping[str, Tensor], activation: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(tensors[WEIGHT])
        self.bias = nn.Parameter(tensors[BIAS]) if BIAS in tensors else None
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return ACTIVATIONS[self.activation](F.linear(x, self.weight.to(x.dtype), bias))

    def tensors(self) -> dict[str, Tensor]:
        """Its weights, under the names of sentence-transformers."""
        weights = {WEIGHT: self.weight, BIAS: self.bias}
        return {name: t.detach().cpu() for name, t in weights.items() if t is not None}


class Normalize(nn.Module):
    """The vector divided by its length."""

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)


def sentence_layers(
    config: EmbeddingConfig, files: Mapping[str, bytes], width: int, source: str
) -> nn.ModuleDict:
    """The layers after pooling, by their folders; a CheckpointError names the one that is wrong.

    Args:
        width: of a token's vector
    """
    layers: dict[str, nn.Module] = {}
    size = len(config.pool) * width
    for module in config.layers:
        if module.kind == "Normalize":
            layers[module.path] = Normalize()
        else:
            layers[module.path], size = _dense(module.path, files, size, source)
    return nn.ModuleDict(layers)


def layer_files(layers: nn.ModuleDict, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of layers whose weights have changed since they were read."""
    changed = {}
    for path, layer in layers.items():
        name = f"{path}/model.safetensors"
        if not isinstance(layer, Dense):
            continue
        stored, tensors = load(files[name]), layer.tensors()
        if any(
            not torch.equal(stored[key].to(tensors[key].dtype), tensors[key]) for key in tensors
        ):
            changed[name] = save(tensors, {"format": "pt"})
    return changed


def activation_name(value: Any, source: str) -> str:
    """The name of an activation in the table, from the path of its class; it is never imported."""
    name = value.rpartition(".")[2] if isinstance(value, str) else ""
    if name not in ACTIVATIONS or not value.startswith("torch.nn."):
        raise CheckpointError(
            f"{source} = {shown(value)} is not supported: glassformer reads torch.nn."
            + ", ".join(ACTIVATIONS)
        )
    return str(name)


def _dense(path: str, files: Mapping[str, bytes], size: int, source: str) -> tuple[Dense, int]:
    """The layer of this folder for vectors of `size` numbers, and the size of what it gives."""
    where, name = f"{source}: {path}/config.json", f"{path}/model.safetensors"
    fields = settings(files, f"{path}/config.json", source)
    if fields.get("use_residual", False) is not False:
        raise CheckpointError(
            f"{where}: use_residual = {shown(fields['use_residual'])} is not supported: "
            "glassformer reads layers without it"
        )
    stated = fields.get("activation_function", "torch.nn.Tanh")
    activation = activation_name(stated, f"{where}: activation_function")
    if name not in files:
        raise CheckpointError(
            f"{source}: {name} is missing: glassformer reads safetensors: save the model with a "
            "recent sentence-transformers, which writes it"
        )
    data, bias = files[name], fields.get("bias", True)
    shapes = read_header(io.BytesIO(data), len(data), f"{source}: {name}").shapes
    outputs = fields.get("out_features")
    expected = {WEIGHT: (outputs, size), **({BIAS: (outputs,)} if bias is not False else {})}
    if fields.get("in_features") != size or shapes != expected:
        raise CheckpointError(
            f"{source}: {path}: in_features = {shown(fields.get('in_features'))}, out_features = "
            f"{shown(outputs)}, tensors {shown(shapes)}: the vectors before it have {size} "
            f"numbers, and it needs {shown(expected)}"
        )
    tensors = load(data)
    for key, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.float().isfinite().all():
            raise CheckpointError(
                f"{source}: {name}: tensor {key!r} has numbers that are not finite floats: it is "
                "damaged, or its training diverged"
            )
    return Dense(tensors, activation), int(shapes[WEIGHT][0])
