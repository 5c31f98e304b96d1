"""Load a task from a folder, and save it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.checkpoint.architecture import Architecture
from glassformer.checkpoint.budget import check_sizes
from glassformer.checkpoint.folder import (
    CONFIG,
    INDEX,
    LARGER,
    MAX_BYTES,
    WEIGHTS,
    Contents,
    open_config,
    open_folder,
    side_files,
    write_folder,
)
from glassformer.checkpoint.gguf import GgufFile, is_gguf, open_gguf
from glassformer.checkpoint.keys import Json
from glassformer.checkpoint.quantized import (
    load_quantized,
    save_quantized,
    stored_method,
)
from glassformer.checkpoint.rows import Link, check_known, links, pair
from glassformer.checkpoint.sharded import elements, is_sharded, open_shares, read_weights
from glassformer.checkpoint.tables import ARCHITECTURES
from glassformer.checkpoint.tensors import FLOATS, check_finite, in_storage_dtype
from glassformer.checkpoint.vectors import about_vectors, is_vectors, open_vectors
from glassformer.config import TRAITS, ModelConfig, TaskConfig, TaskKind
from glassformer.errors import CheckpointError, ConfigError, shown
from glassformer.precision import dtype_name
from glassformer.pretrained import named
from glassformer.safe_files import read
from glassformer.tasks import Task, outline
from glassformer.tasks.quantize import quantization


@dataclass(frozen=True)
class Origin:
    """Where a task was loaded from: all that is needed to write it back unchanged."""

    architecture: Architecture
    config: Json
    config_text: str
    index_text: str | None
    layout: dict[str, tuple[list[str], dict[str, str]]]  # file → tensors' names, metadata
    names: dict[str, Link]  # name in the file → our tensors
    dtype: torch.dtype | None  # of the weights in the file
    carried: dict[str, Tensor] = field(repr=False)  # tensors that the model does not use
    files: dict[str, bytes] = field(repr=False)
    # The dtypes in the file of weights that were converted to compute in float32.
    stored: Mapping[str, torch.dtype] = field(default_factory=dict, repr=False)


def read_configs(path: str | os.PathLike[str]) -> tuple[ModelConfig, TaskConfig]:
    """The configs of a model folder, a GGUF file or a file of vectors; no weight is read."""
    if is_gguf(path):
        file = open_gguf(path)
        return file.architecture.read(file.config, str(path))
    if is_vectors(path):
        return about_vectors(path)[0], TaskConfig()
    path = named(path)
    config, _ = open_config(path)
    source = f"{path}/{CONFIG}"
    return _architecture(config, source).read(config, source)


def load_task(path: str | os.PathLike[str]) -> tuple[Task, Origin]:
    """Load a Hugging Face folder, a GGUF file (which is saved as a folder), or a file of
    static vectors (an encoder that is their table alone).

    A folder's weights stay memory-mapped until they are used.
    """
    if is_gguf(path):
        file = open_gguf(path)
        task, _, _ = _build(file, file.architecture, str(path))
        return task, replace(new_origin(task, file.architecture.model_type), files=file.files)
    if is_vectors(path):
        vectors = open_vectors(path)
        task = outline(vectors.config, TaskConfig())
        task.load_state_dict(
            {"backbone.encoder.embedding.token.weight": vectors.table}, assign=True
        )
        return task.eval(), replace(new_origin(task), files=vectors.files)
    config, config_text = open_config(path)
    source = f"{path}/{CONFIG}"
    architecture = _architecture(config, source)  # before the weights: a better error
    if is_sharded(Path(path)):
        return _load_sharded(Path(path), config, architecture)
    contents = open_folder(path, config, config_text)
    if (method := stored_method(config, source)) is not None:
        task = load_quantized(contents, method, architecture, source)
        return task, Origin(
            architecture, contents.config, contents.config_text, None, {}, {},
            task.backbone.token_embedding.dtype, {}, contents.files,
        )  # fmt: skip
    task, names, tensors = _build(contents, architecture, source)
    layout = {s.name: (list(s.shapes), s.metadata) for s in contents.shards}
    rest = {name: tensor for name, tensor in tensors.items() if name not in names}
    origin = Origin(
        architecture, contents.config, contents.config_text, contents.index_text, layout, names,
        task.backbone.token_embedding.dtype, rest, contents.files,
    )  # fmt: skip
    return task, origin


def _load_sharded(folder: Path, config: Json, architecture: Architecture) -> tuple[Task, Origin]:
    """A sharded checkpoint of a run; it is saved as a folder."""
    source = f"{folder}/{CONFIG}"
    model_config, task_config = architecture.read(config, source)
    shares = open_shares(folder)
    counts = elements(shares)
    if any(".lora." in name for name in counts):
        raise CheckpointError(
            f"{folder}: a sharded run saves an adapter without its model: run its command to the "
            "end, then load the model with adapter = "
            f"{folder.parent.parent / 'adapter'} (--adapter on the command line)"
        )
    shapes = {name: (count,) for name, count in counts.items()}  # of what is stored, as one row
    size = torch.float32.itemsize * sum(counts.values())
    check_sizes(model_config, task_config, architecture.spelling, shapes, size, source)
    task = outline(model_config, task_config)
    weights = read_weights(
        folder, shares, {name: tuple(p.shape) for name, p in task.named_parameters()}
    )
    check_finite(weights, folder)
    for name, tensor in weights.items():
        place, _, leaf = name.rpartition(".")
        setattr(task.get_submodule(place), leaf, nn.Parameter(tensor))
    files = {
        name: data
        for name in side_files(folder)
        if (data := read(folder, name, LARGER.get(name, MAX_BYTES)))
    }
    return task.eval(), replace(new_origin(task, architecture.model_type), files=files)


def save_task(
    task: Task,
    path: str | os.PathLike[str],
    origin: Origin | None = None,
    files: Mapping[str, bytes] | None = None,
    notes: Mapping[str, str] | None = None,
    beside: Mapping[str, dict[str, Tensor]] | None = None,
) -> None:
    """Write a Hugging Face folder; a loaded model (with its `origin`) is written bit for bit.

    A quantized one is written in a layout of ours: see `quantized`.

    `files` are the side files, by default those of the origin. `notes` are further keys of
    config.json, which `transformers` ignores. `beside` are files of further tensors by name;
    with it the folder gets a manifest.
    """
    if (method := quantization(task)) is not None:
        origin = origin or new_origin(outline(task.backbone.config, task.spec))
        config = origin.architecture.write(task.backbone.config, task.spec, origin.config)
        own = origin.files if files is None else files
        save_quantized(task, path, {**config, **(notes or {})}, method, own, origin.stored)
        return
    origin = origin or new_origin(task)
    state = in_storage_dtype(_tensors(task), origin.stored)
    shards = {}
    for file, (names, metadata) in origin.layout.items():
        tensors = {
            name: origin.names[name].to_theirs(state)
            if name in origin.names
            else origin.carried[name]
            for name in names
        }
        shards[file] = (tensors, metadata)
    text = _config_text(task, origin, _embedding_dtype(task, state), notes or {})
    texts = {**(origin.files if files is None else files), CONFIG: text.encode()}
    if origin.index_text is not None:
        texts[INDEX] = origin.index_text.encode()
    shards |= {name: (tensors, {}) for name, tensors in (beside or {}).items()}
    write_folder(path, texts=texts, shards=shards, manifest=beside is not None)


def config_text(task: Task, origin: Origin | None, notes: Mapping[str, str]) -> str:
    """config.json as `save_task` would write it."""
    return _config_text(task, origin or new_origin(task), storage_dtype(task, origin), notes)


def _config_text(task: Task, origin: Origin, dtype: torch.dtype, notes: Mapping[str, str]) -> str:
    config = origin.architecture.write(task.backbone.config, task.spec, origin.config)
    if dtype != origin.dtype:  # the dtype that transformers loads them in
        config = {k: v for k, v in config.items() if k != "torch_dtype"}
        config["dtype"] = dtype_name(dtype)
    config = {**config, **notes}
    return origin.config_text if config == origin.config else json.dumps(config, indent=2) + "\n"


def _build(
    contents: Contents | GgufFile, architecture: Architecture, source: str
) -> tuple[Task, dict[str, Link], dict[str, Tensor]]:
    """The model, the links by tensor name, and all tensors; checked before a weight is read."""
    config, task_config = architecture.read(contents.config, source)
    spelling, shapes = architecture.spelling, contents.shapes
    check_sizes(config, task_config, spelling, shapes, contents.size, source)
    task = outline(config, task_config)
    names = _pair(task, task_config, architecture, contents)
    tensors = contents.tensors()
    check_finite(tensors, contents.path)
    _fill(task, names, tensors, str(contents.path))
    return task.eval(), names, tensors


def _architecture(config: Json, source: str) -> Architecture:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        names = list(ARCHITECTURES)
        longer = [name for name in names if name.startswith(f"{kind or ' '}")]
        near = [*longer, *get_close_matches(str(kind), names, n=1, cutoff=0.7)]
        nearest = f"the nearest is {near[0]}; " if near else ""
        raise CheckpointError(
            f"{source}: model_type = {shown(kind)} is not known: {nearest}glassformer opens "
            f"{', '.join(ARCHITECTURES)} (CONTRIBUTING.md says how to add one)"
        )
    return ARCHITECTURES[kind]


def _pair(
    task: Task, config: TaskConfig, architecture: Architecture, contents: Contents | GgufFile
) -> dict[str, Link]:
    """Assign every tensor of the file to ours; shapes are compared before a weight is read."""
    head = architecture.heads[architecture.head_name(contents.config, CONFIG)]
    rows = (*architecture.rows, *head.rows)
    ours = _tensors(task)
    buffers = {name for name, _ in task.named_buffers()}
    shapes = {name: tuple(tensor.shape) for name, tensor in ours.items()}
    theirs, source = contents.shapes, str(contents.path)
    needed = links(rows, ours, task.backbone.config)
    names = pair(needed, theirs, architecture.prefix, source, optional=buffers)
    for name, link in names.items():
        if theirs[name] != link.shape(shapes):
            raise CheckpointError(
                f"{source}: tensor {shown(name)} has shape {list(theirs[name])}, "
                f"and the config needs {list(link.shape(shapes))}"
            )
    others = [name for name in theirs if name not in names]
    check_known(others, architecture.patterns(), architecture.prefix, source)
    filled = {name for link in names.values() for name in link.ours}
    if missing := [name for name in ours if name not in filled | buffers]:
        raise CheckpointError(
            f"{source}: the tensor of {missing[0]!r} is missing, which a {config.kind} model needs"
        )
    return names


def _fill(
    task: Task, names: Mapping[str, Link], tensors: Mapping[str, Tensor], source: str
) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in _tensors(task).items()}
    filled: dict[str, Tensor] = {}
    for name, link in sorted(names.items(), key=lambda item: item[1].row.tied):
        if tensors[name].dtype not in FLOATS:
            kind = dtype_name(tensors[name].dtype)
            raise CheckpointError(
                f"{source}: tensor {shown(name)} has dtype {kind}: write floats of 16 bits or more"
            )
        for ours, tensor in link.to_ours(tensors[name], shapes).items():
            if not link.row.tied:
                filled[ours] = tensor
            elif not torch.equal(tensor, filled[ours]):
                raise CheckpointError(
                    f"{source}: tensor {shown(name)} must be a copy of {ours!r} and differs from "
                    "it: remove it, or make them equal"
                )
    parameters = dict(task.named_parameters())
    for ours, tensor in filled.items():
        place, _, leaf = ours.rpartition(".")
        value = nn.Parameter(tensor, requires_grad=True) if ours in parameters else tensor
        setattr(task.get_submodule(place), leaf, value)


def new_origin(task: Task, preferred: str | None = None) -> Origin:
    """The origin of a model that was not loaded from a folder, if possible a `preferred` layout."""
    architecture, foreign = layout_of(task.backbone.config, task.spec, preferred)
    names = usual_names(task, architecture, foreign)
    layout = {WEIGHTS: (sorted(names), {"format": "pt"})}
    return Origin(architecture, {}, "", None, layout, names, None, {}, {})


def usual_names(task: Task, architecture: Architecture, foreign: Json) -> dict[str, Link]:
    """The names of tensors that transformers gives such a model, and which of ours they are.

    `foreign` is its config.json.
    """
    head = architecture.heads[architecture.head_name(foreign, CONFIG)]
    bare = head is next(iter(architecture.heads.values()))
    names: dict[str, Link] = {}
    rows = (*architecture.rows, *head.rows)
    for link in links(rows, _tensors(task), task.backbone.config):
        if not link.row.tied:
            inside = link.row.body or link.row in architecture.rows
            prefix = architecture.prefix if inside and not bare else ""
            again = any(link.ours == other.ours for other in names.values())
            names[prefix + link.theirs] = link.as_copy() if again else link
    return names


def layout_of(
    config: ModelConfig, spec: TaskConfig, preferred: str | None = None
) -> tuple[Architecture, Json]:
    """The first architecture that can store such a model, and its config.json."""
    reasons = []
    for architecture in sorted(ARCHITECTURES.values(), key=lambda a: a.model_type != preferred):
        if config.family in architecture.families:
            try:
                return architecture, architecture.write(config, spec, {})
            except (CheckpointError, ConfigError) as error:
                reasons.append(str(error))
    why = f": {reasons[0]}" if reasons else ""
    raise CheckpointError(f"no known layout can store this model{why}")


def fitting(config: ModelConfig, kind: TaskKind, labels: Sequence[str] = ()) -> list[TaskConfig]:
    """The heads of this kind that known layouts have for such a backbone, the preferred first."""
    tasks = []
    named = tuple(labels) if TRAITS[kind].named_labels else ()
    for architecture in ARCHITECTURES.values():
        for head in architecture.heads.values():
            if head.kind != kind or "labels" in head.fields:
                continue
            dropout = config.dropout.residual if head.dropout else head.default_dropout
            fields = {"kind": kind, "labels": named, "dropout": dropout, **head.fields}
            for pool in [None] if head.pool is None else head.pool[1].values():
                task = TaskConfig(**fields if pool is None else {**fields, "pool": pool})
                try:
                    architecture.write(config, task, {})
                except (CheckpointError, ConfigError):
                    continue
                tasks.append(task)
    return tasks


def widened(task: Task, origin: Origin, dtype: torch.dtype) -> Origin:
    """Convert the weights to `dtype` to compute in; `save_task` still writes the file's dtype."""
    stored = {name: tensor.dtype for name, tensor in _tensors(task).items()}
    task.to(dtype=dtype)
    return replace(origin, stored=stored)


def storage_dtype(task: Task, origin: Origin | None) -> torch.dtype:
    """The dtype in which `save_task` writes the token embeddings, taken as that of the model."""
    stored: Mapping[str, torch.dtype] = {} if origin is None else origin.stored
    return _embedding_dtype(task, in_storage_dtype(_tensors(task), stored))


def _embedding_dtype(task: Task, tensors: Mapping[str, Tensor]) -> torch.dtype:
    table = task.backbone.token_embedding
    return next(tensors[name].dtype for name, p in task.named_parameters() if p is table)


def _tensors(task: nn.Module) -> dict[str, Tensor]:
    return {**dict(task.named_parameters()), **dict(task.named_buffers())}
