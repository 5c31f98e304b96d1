"""Adapter folders in PEFT's layout: adapter_config.json and adapter_model.safetensors.

Their tensors have the names of transformers' modules: base_model.model.NAME.lora_A.weight is
(R, in), NAME.lora_B.weight is (out, R), whichever way the checkpoint stores the map itself.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from glassformer.adapters.adapter import Adapter
from glassformer.adapters.lora import AdaptedLinear, Lora
from glassformer.adapters.maps import CheckpointMap, linear_maps, names_of
from glassformer.checkpoint import Origin, config_text
from glassformer.checkpoint.architecture import MAX_LABELS
from glassformer.checkpoint.folder import ADAPTER_CONFIG, CONFIG, MAX_BYTES, write_folder
from glassformer.checkpoint.keys import Json
from glassformer.checkpoint.load import new_origin
from glassformer.checkpoint.rows import Link, Row
from glassformer.checkpoint.tensors import FLOATS, check_finite
from glassformer.config import TRAITS, TaskConfig, TaskKind
from glassformer.errors import CheckpointError, shown
from glassformer.precision import dtype_name
from glassformer.safe_files import locate, open_plain, read
from glassformer.strictjson import parse
from glassformer.tasks import Task, outline
from glassformer.tensor_files import open_tensors, read_header

ADAPTER_WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."
LORA = re.compile(r"(.+)\.(lora_A|lora_B|lora_magnitude_vector)(\.weight)?")
TASK_TYPES: dict[TaskKind, str] = {
    "classification": "SEQ_CLS",
    "token_classification": "TOKEN_CLS",
    "question_answering": "QUESTION_ANS",
    "causal_lm": "CAUSAL_LM",
    "translation": "SEQ_2_SEQ_LM",
    "features": "FEATURE_EXTRACTION",
}
# Fields that do not change what the weights of the file compute, or that are read below.
KNOWN = {
    "alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "ensure_weight_tying",
    "eva_config", "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights",
    "layers_pattern", "layers_to_transform", "lora_alpha", "lora_dropout", "megatron_core",
    "modules_to_save", "peft_type", "peft_version", "qalora_group_size", "r", "rank_pattern",
    "revision", "runtime_config", "target_modules", "task_type", "use_dora", "use_rslora",
}  # fmt: skip
FIXED = {"peft_type": ("LORA",), "bias": ("none", None)}
# Other ways to start change the weights of the model, too.
STARTS = (True, False, "gaussian", "orthogonal", "eva", None)


@dataclass(frozen=True)
class AdapterFile:
    """An adapter's folder before a weight is read."""

    path: Path  # of the weights
    config: Json
    shapes: dict[str, tuple[int, ...]]  # without PEFT's prefix

    @property
    def source(self) -> str:
        return str(self.path)


def open_adapter(path: str | os.PathLike[str]) -> AdapterFile:
    """The config of an adapter, and the shapes of its weights."""
    folder = Path(path)
    data = read(folder, ADAPTER_CONFIG, MAX_BYTES) if folder.is_dir() else None
    if data is None:
        raise CheckpointError(
            f"{folder}: {ADAPTER_CONFIG} is missing: write the folder of an adapter in PEFT's "
            "layout"
        )
    config = parse(data, str(folder / ADAPTER_CONFIG))
    _check_config(config, str(folder / ADAPTER_CONFIG))
    weights, file = locate(folder, ADAPTER_WEIGHTS), open_plain(folder, ADAPTER_WEIGHTS)
    if weights is None or file is None:
        raise CheckpointError(f"{folder}: {ADAPTER_WEIGHTS} is missing: other files are not read")
    with file:
        size = os.fstat(file.fileno()).st_size
        shapes = read_header(file, size, f"{folder / ADAPTER_WEIGHTS}").shapes
    for name in shapes:
        if not name.startswith(PREFIX):
            raise CheckpointError(
                f"{folder / ADAPTER_WEIGHTS}: tensor {shown(name)}: its name must begin with "
                f"{PREFIX!r}"
            )
    return AdapterFile(weights, config, {n.removeprefix(PREFIX): s for n, s in shapes.items()})


def read_adapter(path: str | os.PathLike[str], task: Task, origin: Origin | None = None) -> Adapter:
    """The adapter of a folder, for this model. Nothing in the folder is executed."""
    file = open_adapter(path)
    origin = origin or new_origin(task)
    spec = _spec(Path(path), file, task, origin)
    base = task if spec == task.spec else outline(task.backbone.config, spec)
    names = names_of(base, origin)
    prefix = origin.architecture.prefix
    maps = {name: each for each in linear_maps(base, names) for name in _spelt(each.name, prefix)}
    chosen: dict[str, tuple[CheckpointMap, dict[str, str]]] = {}  # map → its tensors in the file
    rest: list[str] = []
    for name in file.shapes:
        match = LORA.fullmatch(name)
        if match is None:
            rest.append(name)
        elif match[1] not in maps:
            raise CheckpointError(
                f"{file.source}: tensor {shown(PREFIX + name)}: the model has no linear map "
                f"{shown(match[1])}: is it the adapter of another model?"
            )
        else:
            chosen.setdefault(maps[match[1]].name, (maps[match[1]], {}))[1][match[2]] = name
    for each, parts in chosen.values():
        _check_shapes(file, each, parts, base)
    links = _head_links(file, rest, base, origin)
    tensors = _tensors(file)
    loras = [
        _lora(file, each, {kind: tensors[name] for kind, name in parts.items()})
        for each, parts in chosen.values()
    ]
    weight = task.backbone.token_embedding
    shapes = _shapes(base)
    saved: dict[str, Tensor] = {}  # the head's weights in the file, by our names
    for name, link in links.items():
        saved |= link.to_ours(tensors[name], shapes)
    head = _head(file, saved, base, task, origin) if saved or base is not task else {}
    adapter = Adapter(
        [each for each, _ in chosen.values()], loras, spec, config=file.config, head=head,
        saved=saved,
    )  # fmt: skip
    return adapter.to(weight.device, weight.dtype).train(task.training)


def write_adapter(
    path: str | os.PathLike[str], task: Task, origin: Origin | None, config: Json,
    saved: Collection[str], base: str | None = None, files: Mapping[str, bytes] | None = None,
) -> None:  # fmt: skip
    """Write the adapter of an adapted task as a folder that PEFT opens.

    Args:
        config: fields of adapter_config.json: those it was read with, or its numbers
        saved: the weights of the head that belong to the adapter
        base: the name or path of the model that it was trained on
        files: further files, such as a card
    """
    origin = origin or new_origin(task)
    texts = {**(files or {}), ADAPTER_CONFIG: adapter_json(task, origin, config, saved, base)}
    if saved:  # the labels have no other place
        texts[CONFIG] = config_text(task, origin, {}).encode()
    tensors = adapter_tensors(task, origin, saved)
    write_folder(path, texts=texts, shards={ADAPTER_WEIGHTS: (tensors, {"format": "pt"})})


def adapter_tensors(task: Task, origin: Origin | None, saved: Collection[str]) -> dict[str, Tensor]:
    """The weights of an adapted task's adapter by the names of its file."""
    names, state = names_of(task, origin), dict(task.named_parameters())
    tensors: dict[str, Tensor] = {}
    for each in linear_maps(task, names):
        linear = each.linears(task)[0]
        if isinstance(linear, AdaptedLinear):
            parts = {"lora_A.weight": linear.lora.a, "lora_B.weight": linear.lora.b}
            if linear.lora.magnitude is not None:
                parts["lora_magnitude_vector"] = linear.lora.magnitude
            tensors |= {f"{PREFIX}{each.name}.{kind}": t for kind, t in parts.items()}
    for name, link in names.items():
        if link.ours[0] in saved:
            tensors[PREFIX + name] = link.to_theirs(state)
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def adapter_json(
    task: Task, origin: Origin | None, config: Json, saved: Collection[str], base: str | None
) -> bytes:
    """adapter_config.json."""
    names = names_of(task, origin)
    maps = [m for m in linear_maps(task, names) if isinstance(m.linears(task)[0], AdaptedLinear)]
    prefix = "" if origin is None else origin.architecture.prefix
    heads = [name.removeprefix(prefix) for name, link in names.items() if link.ours[0] in saved]
    usual: Json = {
        "peft_type": "LORA",
        "task_type": TASK_TYPES.get(task.spec.kind),
        "base_model_name_or_path": base,
        "inference_mode": True,
        "target_modules": sorted(each.name.removeprefix(prefix) for each in maps),
        "modules_to_save": sorted({name.split(".")[0] for name in heads}) or None,
        "fan_in_fan_out": any(each.link.row.transpose for each in maps),
        "bias": "none",
    }
    return (json.dumps({**usual, **config}, indent=2) + "\n").encode()


def _check_config(config: Json, source: str) -> None:
    for name, value in config.items():
        if name in FIXED and value not in FIXED[name]:
            raise CheckpointError(
                f"{source}: {name} = {shown(value)} is not supported: only {FIXED[name][0]!r} is"
            )
        if name not in KNOWN and value not in (None, False, {}, []):
            raise CheckpointError(
                f"{source}: {name} = {shown(value)} is not supported: only null or false is"
            )
    if "peft_type" not in config:
        raise CheckpointError(f"{source}: peft_type is missing: write 'LORA'")
    start = config.get("init_lora_weights", True)
    if not any(start is each or (isinstance(start, str) and start == each) for each in STARTS):
        raise CheckpointError(
            f"{source}: init_lora_weights = {shown(start)}: such adapters belong to changed "
            "weights of the model: convert it with PEFT's save_pretrained(path_initial_model_"
            "for_weight_conversion=…)"
        )
    for name in ("r", "lora_alpha"):
        value = config.get(name, 8)
        if type(value) not in (int, float) or not 0 < value < 1 << 31:
            raise CheckpointError(f"{source}: {name} = {shown(value)}: write a number above 0")
    for name in ("alpha_pattern", "rank_pattern"):
        patterns = config.get(name) or {}
        plain = isinstance(patterns, dict) and all(re.fullmatch(r"[\w.]+", key) for key in patterns)
        if not plain or not all(
            type(value) in (int, float) and 0 < value < 1 << 31 for value in patterns.values()
        ):
            raise CheckpointError(
                f"{source}: {name} = {shown(patterns)}: only names of modules with numbers are read"
            )


def _spec(folder: Path, file: AdapterFile, task: Task, origin: Origin) -> TaskConfig:
    """The head that the adapter was trained with: as its config.json says, or by its task type."""
    architecture = origin.architecture
    data = read(folder, CONFIG, MAX_BYTES)
    if data is not None:
        source = str(folder / CONFIG)
        foreign = parse(data, source)
        if (kind := foreign.get("model_type")) != architecture.model_type:
            raise CheckpointError(
                f"{source}: model_type = {shown(kind)}: the adapter belongs to another model: this "
                f"one is {architecture.model_type!r}"
            )
        config, spec = architecture.read(foreign, source)
        if config.model_dump(exclude={"dropout"}) != task.backbone.config.model_dump(
            exclude={"dropout"}
        ):
            raise CheckpointError(f"{source}: the adapter belongs to a model of another shape")
        return spec
    kinds = {theirs: ours for ours, theirs in TASK_TYPES.items()}
    kind = kinds.get(str(file.config.get("task_type")), task.spec.kind)
    saves = any(LORA.fullmatch(name) is None for name in file.shapes)
    if not saves or (kind == task.spec.kind and not task.spec.traits.named_labels):
        return task.spec
    head = next((each for each in architecture.heads.values() if each.kind == kind), None)
    if head is None:
        raise CheckpointError(
            f"{file.source}: task_type = {shown(file.config.get('task_type'))}: a "
            f"{architecture.model_type} model has no such head"
        )
    count = len(task.spec.labels)
    for name in (row.theirs.replace("*", "weight") for row in head.rows if _is_labels(row)):
        if name in file.shapes:
            count = next(iter(file.shapes[name]), 0)
            if not 0 < count <= MAX_LABELS:
                raise CheckpointError(
                    f"{file.source}: tensor {shown(PREFIX + name)} has shape "
                    f"{list(file.shapes[name])}: its rows are labels: write 1 to {MAX_LABELS:,}"
                )
    if kind == task.spec.kind and len(task.spec.labels) == count:
        return task.spec
    fields = dict(head.fields)
    if TRAITS[kind].named_labels:  # as transformers names them
        fields.setdefault("labels", tuple(f"LABEL_{i}" for i in range(count)))
    if head.pool is not None:
        fields["pool"] = next(iter(head.pool[1].values()))
    return TaskConfig(kind=kind, **fields)


def _is_labels(row: Row) -> bool:
    return str(row.ours).startswith("labels.linear.")


def _check_shapes(
    file: AdapterFile, each: CheckpointMap, tensors: Mapping[str, str], task: Task
) -> None:
    """The shapes of one map's tensors fit the map, and each other."""
    out, size = each.shape(task)
    dora = bool(file.config.get("use_dora"))
    for kind in ("lora_A", "lora_B", *(("lora_magnitude_vector",) if dora else ())):
        if kind not in tensors:
            raise CheckpointError(f"{file.source}: tensor '{PREFIX}{each.name}.{kind}' is missing")
    if not dora and "lora_magnitude_vector" in tensors:
        raise CheckpointError(
            f"{file.source}: tensor {shown(PREFIX + tensors['lora_magnitude_vector'])}: "
            "adapter_config.json says use_dora = false"
        )
    rank = int(_by_pattern(file.config, "rank_pattern", each, file.config.get("r", 8)))
    shapes = {"lora_A": (rank, size), "lora_B": (out, rank), "lora_magnitude_vector": (out,)}
    for kind, name in tensors.items():
        if file.shapes[name] != shapes[kind]:
            raise CheckpointError(
                f"{file.source}: tensor {shown(PREFIX + name)} has shape {list(file.shapes[name])}"
                f", and the model and r = {rank} need {list(shapes[kind])}"
            )


def _lora(file: AdapterFile, each: CheckpointMap, tensors: Mapping[str, Tensor]) -> Lora:
    a, b = tensors["lora_A"], tensors["lora_B"]
    alpha = _by_pattern(file.config, "alpha_pattern", each, file.config.get("lora_alpha", 8))
    rank = a.shape[0]
    scale = alpha / (math.sqrt(rank) if file.config.get("use_rslora") else rank)
    return Lora(a, b, scale, magnitude=tensors.get("lora_magnitude_vector"))


def _by_pattern(config: Json, field: str, each: CheckpointMap, usual: float) -> float:
    """The number for one map; a pattern is its name or the last parts of it."""
    for key, value in (config.get(field) or {}).items():
        if each.name == key or each.name.endswith(f".{key}"):
            return float(value)
    return usual


def _tensors(file: AdapterFile) -> dict[str, Tensor]:
    with open_tensors(file.path, "pt") as opened:
        tensors = {name: opened.get_tensor(PREFIX + name).clone() for name in file.shapes}
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{file.source}: tensor {shown(PREFIX + name)} has dtype "
                f"{dtype_name(tensor.dtype)}: write floats of 16 bits or more"
            )
    check_finite(tensors, file.source)
    return tensors


def _shapes(task: Task) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in task.named_parameters()}


def _head_links(
    file: AdapterFile, tensors: Collection[str], base: Task, origin: Origin
) -> dict[str, Link]:
    """Which weights of the head these tensors of the file are; their shapes fit."""
    prefix, shapes = origin.architecture.prefix, _shapes(base)
    links = {
        name: link
        for theirs, link in names_of(base, origin).items()
        for name in _spelt(theirs, prefix)
        if not link.ours[0].startswith("backbone.")
    }
    for name in tensors:
        if name not in links:
            raise CheckpointError(
                f"{file.source}: tensor {shown(PREFIX + name)} is neither LoRA of a linear map nor "
                "a weight of the model's head"
            )
        if file.shapes[name] != links[name].shape(shapes):
            raise CheckpointError(
                f"{file.source}: tensor {shown(PREFIX + name)} has shape {list(file.shapes[name])}"
                f", and the model needs {list(links[name].shape(shapes))}"
            )
    return {name: links[name] for name in tensors}


def _head(
    file: AdapterFile, saved: Mapping[str, Tensor], base: Task, task: Task, origin: Origin
) -> dict[str, nn.Module]:
    """The modules of the head: saved weights, and for the others those of the model."""
    new = outline(base.backbone.config, base.spec)
    own: dict[str, Tensor] = dict(task.named_parameters())
    links = names_of(new, origin)
    for theirs, link in links.items():  # of another head, that the model's file has
        if theirs in origin.carried:
            own = {**link.to_ours(origin.carried[theirs], _shapes(new)), **own}
    for name, parameter in list(new.named_parameters()):
        if name.startswith("backbone."):
            continue
        tensor = saved.get(name, own.get(name))
        if tensor is None or tensor.shape != parameter.shape:
            raise CheckpointError(
                f"{file.source}: the tensor of {name!r} is missing, which a {new.spec.kind} model "
                "needs: neither the adapter nor the model has it"
            )
        place, _, leaf = name.rpartition(".")
        setattr(new.get_submodule(place), leaf, nn.Parameter(tensor.detach().clone()))
    return {name: child for name, child in new.named_children() if name != "backbone"}


def _spelt(name: str, prefix: str) -> tuple[str, ...]:
    """With the architecture's prefix, and without it: so it is in files of a bare body."""
    return (name, name.removeprefix(prefix)) if name.startswith(prefix) else (name, prefix + name)
