"""Folders of models with int8 or int4 weights: safetensors under our own names of the tensors.

config.json says `"quantization_config": {"quant_method": "glassformer", "method": "int4"}`, so that
other libraries refuse the folder instead of reading it wrongly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from glassformer.checkpoint.architecture import Architecture
from glassformer.checkpoint.budget import check_sizes
from glassformer.checkpoint.folder import CONFIG, WEIGHTS, Contents, write_folder
from glassformer.checkpoint.keys import Json
from glassformer.checkpoint.tensors import FLOATS, check_finite, in_storage_dtype
from glassformer.errors import CheckpointError, shown
from glassformer.kernels.quantized import METHODS, MOST_INT8, Method
from glassformer.precision import dtype_name
from glassformer.tasks import Task, outline
from glassformer.tasks.quantize import QuantLinear, QuantLMHead, is_method, quantize

KEY, OURS = "quantization_config", "glassformer"


def stored_method(config: Json, source: str) -> Method | None:
    """The method of a folder that `save_quantized` wrote; None for other folders."""
    about = config.get(KEY)
    if not isinstance(about, dict) or about.get("quant_method") != OURS:
        return None
    method = about.get("method")
    if not is_method(method):
        raise CheckpointError(
            f"{source}: {KEY}.method = {shown(method)}: write {' or '.join(METHODS)}"
        )
    return method


def save_quantized(
    task: Task, path: str | os.PathLike[str], config: Json, method: Method,
    files: Mapping[str, bytes], stored: Mapping[str, torch.dtype],
) -> None:  # fmt: skip
    """Write the folder of a task that `quantize` has changed; `stored` are the dtypes of the file
    that it was loaded from."""
    about = {"quant_method": OURS, "method": method}
    text = json.dumps({**config, KEY: about}, indent=2) + "\n"
    tensors = {n: tensor.detach() for n, tensor in in_storage_dtype(_saved(task), stored).items()}
    write_folder(
        path,
        texts={**files, CONFIG: text.encode()},
        shards={WEIGHTS: (tensors, {"format": "pt"})},
    )


def load_quantized(
    contents: Contents, method: Method, architecture: Architecture, source: str
) -> Task:
    """The task of such a folder; names and shapes are compared before a weight is read."""
    config, spec = architecture.read(contents.config, source)
    numbers = {name: (2, *shape) for name, shape in contents.shapes.items()}  # two in a byte
    check_sizes(config, spec, architecture.spelling, numbers, contents.size, source)
    task = outline(config, spec)
    quantize(task, method)
    expected = _saved(task)
    _check_shapes({name: tuple(tensor.shape) for name, tensor in expected.items()}, contents)
    tensors = contents.tensors()
    check_finite(tensors, contents.path)
    for name, tensor in tensors.items():
        _check_dtype(name, tensor, expected[name].dtype, contents)
        place, _, leaf = name.rpartition(".")
        module = task.get_submodule(place)
        if isinstance(expected[name], nn.Parameter):
            tensor = nn.Parameter(tensor)
        elif isinstance(module, QuantLinear) and leaf == "scale":
            tensor = tensor.to(expected[name].dtype)  # which the kernels need
        setattr(module, leaf, tensor)
    _complete(task)
    return task.eval()


def _saved(task: Task) -> dict[str, Tensor]:
    """The tensors of the file: those of a tied head are rounded again from the token table."""
    heads = [f"{name}.map" for name in _heads(task)] if task.backbone.config.tied else []
    rounded = {f"{head}.{part}" for head in heads for part in ("weight", "scale")}
    persistent = task.state_dict().keys() - rounded
    tensors = {**dict(task.named_parameters()), **dict(task.named_buffers())}  # each once
    return {name: tensor for name, tensor in tensors.items() if name in persistent}


def _complete(task: Task) -> None:
    """Bring the weights that were read into the layout of this machine's kernels."""
    if task.backbone.config.tied:
        for head in _heads(task).values():
            head.map = QuantLinear(task.backbone.token_embedding, head.map.bias, "int8")
    for module in task.modules():
        if isinstance(module, QuantLinear):
            module.pack()


def _heads(task: Task) -> dict[str, QuantLMHead]:
    return {name: head for name, head in task.named_modules() if isinstance(head, QuantLMHead)}


def _check_shapes(expected: Mapping[str, tuple[int, ...]], contents: Contents) -> None:
    for name in sorted(expected.keys() | contents.shapes.keys()):
        shape, needed = contents.shapes.get(name), expected.get(name)
        if shape == needed:
            continue
        stands = "is missing" if shape is None else f"has shape {list(shape)}"
        needs = "has no such tensor" if needed is None else f"needs {list(needed)}"
        raise CheckpointError(
            f"{contents.path}: tensor {shown(name)} {stands}, and the config {needs}"
        )


def _check_dtype(name: str, tensor: Tensor, expected: torch.dtype, contents: Contents) -> None:
    is_float = expected in FLOATS
    if not (tensor.dtype in FLOATS if is_float else tensor.dtype == expected):
        needed = "floats of 16 bits or more" if is_float else dtype_name(expected)
        raise CheckpointError(
            f"{contents.path}: tensor {shown(name)} has dtype {dtype_name(tensor.dtype)}: write "
            f"{needed}"
        )
    if tensor.dtype == torch.int8 and int(tensor.int().abs().max()) > MOST_INT8:
        raise CheckpointError(
            f"{contents.path}: tensor {shown(name)} has numbers beyond ±{MOST_INT8}: it is damaged"
        )
