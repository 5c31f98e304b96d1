"""A model folder on disk, read with care and written whole.

Nothing in it is ever executed and no name in it leads out of it. A new folder appears all at once;
in one that exists each file is replaced at once, config.json last.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoint.keys import Json
from glassformer.errors import CheckpointError
from glassformer.strictjson import parse

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
# Small files that belong to a model: kept with it and written back as they were.
SIDE_FILES = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm",
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
    "1_Pooling/config.json",
)  # fmt: skip
MOST_JSON, MOST_SIDE, MOST_TENSORS = 16 << 20, 64 << 20, 100_000


@dataclass(frozen=True)
class Shard:
    """One file of weights: its tensors' names, shapes and what it says about itself."""

    name: str
    shapes: dict[str, tuple[int, ...]]
    metadata: dict[str, str]


@dataclass(frozen=True)
class Contents:
    """What is in a folder, before any weight is read."""

    path: Path
    config: Json
    config_text: str
    shards: tuple[Shard, ...]
    index_text: str | None
    files: dict[str, bytes] = field(repr=False)  # the side files that are there

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for shard in self.shards for name, shape in shard.shapes.items()}

    def tensors(self) -> dict[str, Tensor]:
        """All weights, memory-mapped: nothing is copied until it is used."""
        found: dict[str, Tensor] = {}
        for shard in self.shards:
            with _weights(self.path / shard.name) as file:
                found |= {name: file.get_tensor(name) for name in shard.shapes}
        return found


def open_config(path: str | os.PathLike[str]) -> tuple[Json, str]:
    """config.json, parsed and as it stands."""
    folder = Path(path)
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder: write the path of a model folder")
    text = _text(folder, CONFIG, MOST_JSON)
    if text is None:
        raise CheckpointError(f"{folder}: {CONFIG} is missing: this is not a model folder")
    return parse(text, f"{folder / CONFIG}"), text


def open_folder(path: str | os.PathLike[str]) -> Contents:
    folder = Path(path)
    config, config_text = open_config(folder)
    index_text = _text(folder, INDEX, MOST_JSON)
    names = [WEIGHTS]
    if index_text is not None and not (folder / WEIGHTS).exists():
        names = _shard_names(parse(index_text, f"{folder / INDEX}"), folder / INDEX)
    files = {}
    for name in SIDE_FILES:
        data = _bytes(folder, name, MOST_SIDE)
        if data is not None:
            files[name] = data
    shards = tuple(_shard(folder, name) for name in names)
    seen: set[str] = set()
    for shard in shards:
        if twice := seen & shard.shapes.keys():
            raise CheckpointError(
                f"{folder / shard.name}: tensor {min(twice)!r} is in another file too"
            )
        seen |= shard.shapes.keys()
    return Contents(folder, config, config_text, shards, index_text, files)


def write_folder(
    path: str | os.PathLike[str],
    *,
    texts: Mapping[str, bytes],
    shards: Mapping[str, tuple[dict[str, Tensor], dict[str, str]]],
) -> None:
    """Write all files beside the folder, make them durable, then move them in."""
    folder = Path(path).absolute()
    beside = folder.with_name(f".{folder.name}.tmp-{os.getpid()}")
    try:
        beside.mkdir(parents=True)
        for name, data in texts.items():
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_bytes(data)
        for name, (tensors, metadata) in shards.items():
            save_file(tensors, beside / name, metadata or None)
        for file in [*beside.rglob("*"), beside]:
            _sync(file)
        if not folder.exists():
            beside.rename(folder)
        else:
            was_model = (folder / CONFIG).exists()
            for file in sorted(beside.rglob("*"), key=lambda each: each.name == CONFIG):
                if file.is_file():
                    target = folder / file.relative_to(beside)
                    target.parent.mkdir(exist_ok=True)
                    file.replace(target)
            _remove_stale(folder, {*texts, *shards}, SIDE_FILES if was_model else ())
        _sync(folder)
        _sync(folder.parent)
    except (OSError, RuntimeError, SafetensorError) as error:
        why = " ".join(str(error).split())
        raise CheckpointError(f"{folder}: could not be written: {why}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _remove_stale(folder: Path, written: set[str], others: tuple[str, ...]) -> None:
    """Files of the model that was here before: the next reader must not mix the two."""
    shards = [file.name for file in folder.glob("model-*-of-*.safetensors")]
    for name in {WEIGHTS, INDEX, *others, *shards} - written:
        (folder / name).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _shard_names(index: Json, source: Path) -> list[str]:
    names = index.get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CheckpointError(f"{source}: field 'weight_map' is missing: write tensor → file")
    for name in names.values():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+\.safetensors", name):
            raise CheckpointError(
                f"{source}: weight_map names {name!r}: write a .safetensors file of this folder"
            )
    return sorted(set(names.values()))


def _shard(folder: Path, name: str) -> Shard:
    path = folder / name
    if not _plain_file(path):
        other = next(
            (n for n in ("pytorch_model.bin", "tf_model.h5") if (folder / n).exists()), None
        )
        hint = (
            f" (there is {other}, which is never opened: convert it to safetensors)"
            if other
            else ""
        )
        raise CheckpointError(f"{folder}: {name} is missing{hint}")
    with _weights(path) as file:
        keys = file.keys()
        if len(keys) > MOST_TENSORS:
            raise CheckpointError(f"{path}: {len(keys)} tensors, more than {MOST_TENSORS}")
        shapes = {key: tuple(file.get_slice(key).get_shape()) for key in keys}
        return Shard(name, shapes, dict(file.metadata() or {}))


@contextmanager
def _weights(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, "pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: not a whole safetensors file: {error}") from None


def _text(folder: Path, name: str, most: int) -> str | None:
    data = _bytes(folder, name, most)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{folder / name}: not UTF-8 text: {error}") from None


def _bytes(folder: Path, name: str, most: int) -> bytes | None:
    path = folder / name
    if not path.exists() or not _plain_file(path):
        return None
    size = path.stat().st_size
    if size > most:
        raise CheckpointError(
            f"{path}: {size:,} bytes, more than the {most:,} such a file may have"
        )
    return path.read_bytes()


def _plain_file(path: Path) -> bool:
    """Not a FIFO, a device or a socket, which could hang or lie; a hub's cache links its files."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
