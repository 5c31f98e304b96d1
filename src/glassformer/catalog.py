"""Models by name: presets, the models that come with the package, and folders of your own."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, GlassformerError, InputError
from glassformer.presets import PRESETS, Preset
from glassformer.pretrained import named, shipped

RUNS = Path("runs")  # the default folder of runs
FP32, BF16 = 4, 2  # bytes per number
ADAMW = 4 * FP32  # weight, gradient and two moments; activations come on top


def find(name: str) -> Preset:
    """A preset by its name, else the configuration of a model folder or file, without its weights.

    ConfigError if there is none of them.
    """
    if name in PRESETS:
        return PRESETS[name]
    packed, exists = name.endswith(".gguf"), os.path.exists(named(name))  # noqa: PTH110
    if not packed and not exists:
        near = difflib.get_close_matches(name.lower(), PRESETS, n=10)
        hint = "`glassformer presets` lists the presets"
        if near:  # what is before the first hyphen is rarely wrong
            family = name.lower().partition("-")[0]
            nearest = min(near, key=lambda known: known.partition("-")[0] != family)
            hint = f"did you mean {nearest!r}?"
        raise ConfigError(f"{name}: no preset, no folder and no file: {hint}")
    from glassformer.checkpoint import is_vectors, read_configs

    what = "a GGUF file" if packed else "vectors, one per word" if is_vectors(name) else None
    return Preset(what or "a model folder", *read_configs(name))


def list_presets() -> list[dict[str, Any]]:
    """The name, sizes and parameter counts of every preset."""
    from glassformer.sizes import measure

    rows = []
    for name, preset in PRESETS.items():
        fields = ("family", "depth", "decoder_depth", "width", "heads", "vocab_size")
        sizes = measure(preset.model, preset.task)
        rows.append(
            {"name": name, "what": preset.what}
            | {field: getattr(preset.model, field) for field in fields}
            | {"bare": sizes.bare, "with_head": sizes.with_head}
        )
    return rows


def count_parameters(name: str) -> dict[str, Any]:
    """All parameters of a preset or a model, part by part, with the memory that they take."""
    from glassformer.sizes import measure

    preset = find(name)
    try:
        sizes = measure(preset.model, preset.task)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from None

    def memory(count: int) -> dict[str, int]:
        return {"fp32_bytes": FP32 * count, "bf16_bytes": BF16 * count}

    parts = []
    for part in sizes.parts:
        row = dataclasses.asdict(part) | {"each": part.single, "count": part.count}
        share = 100 * part.count / sizes.with_head
        parts.append(row | {"share": round(share, 3)} | memory(part.count))
    return {
        "name": name,
        "bare": sizes.bare,
        "with_head": sizes.with_head,
        "per_head": sizes.per_head,
        "per_block": sizes.per_block,
        **memory(sizes.with_head),
        "adamw_bytes": ADAMW * sizes.with_head,
        "parts": parts,
        "config": preset.model.model_dump(),
        "task": preset.task.model_dump(),
    }


def list_models(folders: Sequence[Path] = ()) -> list[dict[str, Any]]:
    """The models that come with the package, then those in these folders.

    Each has a name and `shipped`, then family, parameters, bytes and output, or a `problem`.

    Args:
        folders: model folders, or folders of models and runs; runs/, if not given
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder: give one that holds models")
        if not any(_model_folders(folder)):
            raise InputError(f"{folder}: there is no model in it: give a folder that holds models")
    own = [path for folder in folders or [RUNS] for path in _model_folders(folder)]
    rows = [{"name": name, "shipped": True} | _summary(path) for name, path in shipped().items()]
    return rows + [{"name": str(path), "shipped": False} | _summary(path) for path in own]


def _model_folders(folder: Path) -> Iterator[Path]:
    """The folder itself if it is a model, else the models and results of runs in it."""
    if (folder / "config.json").is_file():
        yield folder
    elif folder.is_dir():
        for inner in sorted(folder.iterdir()):
            for path in (inner, inner / "model"):
                if (path / "config.json").is_file():
                    yield path


def _summary(folder: Path) -> dict[str, Any]:
    from glassformer.checkpoint import read_configs
    from glassformer.sizes import measure

    try:
        config, task = read_configs(folder)
        count = measure(config, task).with_head
    except GlassformerError as error:
        return {"problem": str(error)}
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    return {
        "family": config.family, "parameters": count, "bytes": weights, "gives": task.traits.gives
    }  # fmt: skip
