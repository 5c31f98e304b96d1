"""A model folder on disk: checked before it is read, and written atomically.

Nothing in it is ever executed and no name in it leads out of it. A new folder appears all at once;
in an existing one each file is replaced atomically, config.json last.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from glassformer.checkpoint.keys import Json
from glassformer.durable import move, not_written, sync, writing
from glassformer.errors import CheckpointError, shown
from glassformer.pretrained import nearly
from glassformer.safe_files import kind_of, locate, open_plain, read
from glassformer.strictjson import parse
from glassformer.tensor_files import MAX_TENSORS, open_tensors, read_header
from glassformer.text.sentencepiece import MODEL_FILES

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
MANIFEST, ADAPTER_CONFIG = "manifest.json", "adapter_config.json"
# Small files that belong to a model: kept with it and written back unchanged.
SIDE_FILES = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", *MODEL_FILES,
    "chat_template.jinja", "modules.json", "sentence_bert_config.json",
    "config_sentence_transformers.json", "1_Pooling/config.json", "README.md", "LICENSE",
)  # fmt: skip
# Those of the modules of sentence-transformers, such as 2_Dense/config.json.
MODULE = re.compile(r"[0-9]_(Pooling|Dense|Normalize)[A-Za-z0-9_]{0,40}")
MODULE_FILES = ("config.json", "model.safetensors")
MAX_MODULES, MAX_MODULE_BYTES = 16, 128 << 20
MAX_BYTES = 4 << 20  # of such a file and of config.json, except these:
LARGER = {
    "tokenizer.json": 32 << 20,
    **dict.fromkeys(("vocab.txt", "vocab.json", "merges.txt", *MODEL_FILES), 16 << 20),
}
MAX_SHARDS = 1_000
MAPS_LOCK = os.name == "nt"  # Windows does not replace or remove a mapped file
PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# Weights in other formats, and the option with which transformers reads them.
OTHERS = {
    **dict.fromkeys((".bin", ".pt", ".pth", ".ckpt", ".pkl"), ""),
    ".h5": ", from_tf=True",
    ".msgpack": ", from_flax=True",
}
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".zst")


@dataclass(frozen=True)
class Shard:
    """One file of weights: the names and shapes of its tensors, and its metadata."""

    name: str
    path: Path  # in the hub's cache not under its name
    shapes: dict[str, tuple[int, ...]]
    metadata: dict[str, str]
    size: int  # bytes of its tensors


@dataclass(frozen=True)
class Contents:
    """The content of a folder, before any weight is read."""

    path: Path
    config: Json
    config_text: str
    shards: tuple[Shard, ...]
    index_text: str | None
    files: dict[str, bytes] = field(repr=False)  # the side files that exist

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: shape for shard in self.shards for name, shape in shard.shapes.items()}

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(shard.size for shard in self.shards)

    def tensors(self) -> dict[str, Tensor]:
        """All weights, memory-mapped where that does not lock the file: not read until used."""
        weights: dict[str, Tensor] = {}
        for shard in self.shards:
            with open_tensors(shard.path, "pt") as file:
                tensors = {name: file.get_tensor(name) for name in shard.shapes}
                weights |= {n: t.clone() for n, t in tensors.items()} if MAPS_LOCK else tensors
        return weights


def open_config(path: str | os.PathLike[str]) -> tuple[Json, str]:
    """config.json, parsed and as text."""
    folder = Path(path)
    _check_folder(folder)
    data = read(folder, CONFIG, MAX_BYTES)
    if data is None and os.path.isfile(folder / "model" / CONFIG):  # noqa: PTH113 - never raises
        raise CheckpointError(f"{folder}: this is the folder of a run: use {folder / 'model'}")
    for adapter in (folder, folder / "adapter") if data is None else (folder,):  # of a run
        if is_adapter(adapter):
            raise CheckpointError(
                f"{adapter}: this is an adapter: load the model that it was trained on, with "
                f"adapter = {adapter} (--adapter on the command line)"
            )
    if data is None:
        raise CheckpointError(f"{folder}: {CONFIG} is missing: this is not a model folder")
    return parse(data, f"{folder / CONFIG}"), data.decode("utf-8")


def is_adapter(folder: Path) -> bool:
    """Whether the folder has an adapter in PEFT's layout, and no model."""
    names = (ADAPTER_CONFIG, WEIGHTS, INDEX)
    adapter, *weights = (os.path.isfile(folder / name) for name in names)  # noqa: PTH113
    return adapter and not any(weights)


def open_folder(path: str | os.PathLike[str], config: Json, config_text: str) -> Contents:
    """Open the folder with this config.json: the headers of its weights and its side files."""
    folder = Path(path)
    index_data, index, names = read(folder, INDEX, MAX_BYTES), {}, [WEIGHTS]
    if index_data is not None:
        index = parse(index_data, f"{folder / INDEX}")
        if locate(folder, WEIGHTS) is None:
            names = _shard_names(index, folder / INDEX)
    files = {}
    for name in side_files(folder):
        weights = "/" in name and name.endswith(".safetensors")
        data = read(folder, name, MAX_MODULE_BYTES if weights else LARGER.get(name, MAX_BYTES))
        if data is not None:
            files[name] = data
    shards = tuple(_shard(folder, name, config) for name in names)
    seen: set[str] = set()
    for shard in shards:
        if twice := seen & shard.shapes.keys():
            raise CheckpointError(
                f"{folder / shard.name}: tensor {shown(min(twice))} is in another file, too"
            )
        seen |= shard.shapes.keys()
        if len(seen) > MAX_TENSORS:
            raise CheckpointError(f"{folder}: more than {MAX_TENSORS:,} tensors in its files")
    if names != [WEIGHTS]:
        _check_index(index, shards, folder / INDEX)
    index_text = None if index_data is None else index_data.decode("utf-8")
    return Contents(folder, config, config_text, shards, index_text, files)


def side_files(folder: Path) -> list[str]:
    """The names of side files that the folder may have, with those of its modules."""
    modules = sorted(p.name for p in folder.glob("[0-9]_*") if MODULE.fullmatch(p.name))
    if len(modules) > MAX_MODULES:
        raise CheckpointError(f"{folder}: {len(modules)} modules, more than {MAX_MODULES}")
    names = [f"{module}/{name}" for module in modules for name in MODULE_FILES]
    return list(dict.fromkeys((*SIDE_FILES, *names)))


def is_module_file(name: str) -> bool:
    """Whether this is the name of a file of a module, such as 2_Dense/config.json."""
    module, _, file = name.partition("/")
    return file in MODULE_FILES and MODULE.fullmatch(module) is not None


def write_folder(
    path: str | os.PathLike[str],
    *,
    texts: Mapping[str, bytes],
    shards: Mapping[str, tuple[dict[str, Tensor], dict[str, str]]],
    manifest: bool = False,
) -> None:
    """Write all files to a temporary folder beside `path`, sync them, then move them in.

    With a `manifest` the folder has the sha256 of each file, so that `verify` can find damage.
    """
    folder = Path(path).absolute()
    _check_targets(folder, [*texts, *shards])
    was_model = (folder / CONFIG).exists()
    needed = _needed(texts, shards)
    with assembled(folder, needed) as beside:
        for name, data in texts.items():
            (beside / name).parent.mkdir(exist_ok=True)
            (beside / name).write_bytes(data)
        for name, (tensors, metadata) in shards.items():
            save_file(tensors, beside / name, metadata or None)
            # safetensors makes the file private to the user.
            (beside / name).chmod(0o666 & beside.stat().st_mode)
        if manifest:
            (beside / MANIFEST).write_bytes(json.dumps(digests(beside), indent=2).encode())
    with writing(folder, needed):
        _remove_stale(folder, {*texts, *shards}, side_files(folder) if was_model else ())


@contextmanager
def assembled(folder: Path, needed: int) -> Iterator[Path]:
    """A temporary folder beside `folder`. At the end its files are synced and moved in; if there
    is an error, nothing of them is left.

    `needed` is the number of bytes that will be written.
    """
    _check_space(folder, needed)
    beside = folder.with_name(f".{folder.name}.tmp-{secrets.token_hex(4)}")
    try:
        beside.mkdir(parents=True)
        yield beside
        for file in [*beside.rglob("*"), beside]:
            sync(file)
        if not folder.exists():
            move(beside, folder)
        else:
            for file in sorted(beside.rglob("*"), key=lambda path: path.name == CONFIG):
                if file.is_file():
                    target = folder / file.relative_to(beside)
                    target.parent.mkdir(exist_ok=True)
                    move(file, target)  # replaces a link there, without following it
        sync(folder)
        sync(folder.parent)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:
        raise CheckpointError(not_written(folder, needed, error)) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def verify(folder: Path, *required: str) -> None:
    """Compare every file with the manifest; a CheckpointError names the one that differs.

    The config, all weights and side files that exist, and those `required`, must be in it.
    """
    data = read(folder, MANIFEST, MAX_BYTES)
    if data is None:
        raise CheckpointError(f"{folder}: {MANIFEST} is missing: this checkpoint is incomplete")
    manifest = parse(data, f"{folder / MANIFEST}")
    weights = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.safetensors"))
    sides = [name for name in side_files(folder) if locate(folder, name) is not None]
    for name in (CONFIG, *required, *weights, *sides):
        if name not in manifest:
            raise CheckpointError(f"{folder / MANIFEST}: {shown(name)} is missing in it")
    for name, digest in manifest.items():
        path = locate(folder, name)
        if path is None:
            raise CheckpointError(f"{folder / name}: is missing")
        if _digest(path) != digest:
            raise CheckpointError(
                f"{folder / name}: is damaged: its sha256 differs from the manifest"
            )


def digests(folder: Path) -> dict[str, str]:
    """The sha256 of each file, by its path in the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): _digest(file) for file in files}


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None


def _needed(
    texts: Mapping[str, bytes], shards: Mapping[str, tuple[dict[str, Tensor], dict[str, str]]]
) -> int:
    weights = sum(t.nbytes for tensors, _ in shards.values() for t in tensors.values())
    return sum(map(len, texts.values())) + weights


def _check_space(folder: Path, needed: int) -> None:
    """Refuse before anything is written, rather than when the disk is full."""
    existing = next(path for path in folder.parents if path.exists())
    free = shutil.disk_usage(existing).free
    if needed > free:
        raise CheckpointError(
            f"{folder}: could not be written: {needed:,} bytes are needed, {free:,} are free"
        )


def _check_targets(folder: Path, names: list[str]) -> None:
    """No name leads out of the folder, and none is that of a folder."""
    for name in names:
        plain = PLAIN_NAME.fullmatch(name) and not name.startswith(".")
        if not plain and name not in SIDE_FILES and not is_module_file(name):
            raise CheckpointError(f"{folder}: {shown(name)} is not a name for a file of a model")
    if len({name.casefold() for name in names}) < len(names):
        raise CheckpointError(
            f"{folder}: two names of {', '.join(sorted(names))} differ by case only, and many file "
            "systems cannot store both: rename a file, and its entry in the index"
        )
    for name in {*names, *side_files(folder)}:
        if kind_of(folder / name) == "a folder":
            raise CheckpointError(f"{folder / name}: this is a folder: move it out of the way")
        parent = (folder / name).parent
        if parent != folder and kind_of(parent) not in ("a folder", None):
            raise CheckpointError(
                f"{parent}: this is {kind_of(parent)}: it is not followed: remove it"
            )


def _remove_stale(folder: Path, written: set[str], others: Iterable[str]) -> None:
    """Remove files of the previous model, which must not mix with those of the new one."""
    shards = [file.name for file in folder.glob("model-*-of-*.safetensors")]
    same = {name.casefold() for name in written}  # on file systems that ignore case
    for name in {WEIGHTS, INDEX, *others, *shards}:
        if name.casefold() not in same:
            (folder / name).unlink(missing_ok=True)


def _shard_names(index: Json, source: Path) -> list[str]:
    names = index.get("weight_map")
    if not isinstance(names, dict) or not names:
        raise CheckpointError(f"{source}: field 'weight_map' is missing: write tensor → file")
    for tensor, name in names.items():
        plain = isinstance(name, str) and PLAIN_NAME.fullmatch(name)
        if not plain or not name.endswith(".safetensors"):
            raise CheckpointError(
                f"{source}: weight_map has {shown(name)} for {shown(tensor)}: write a "
                ".safetensors file of this folder"
            )
    files = sorted(set(names.values()))
    if len(files) > MAX_SHARDS:
        raise CheckpointError(
            f"{source}: weight_map names {len(files):,} files, more than {MAX_SHARDS:,}"
        )
    return files


def _check_index(index: Json, shards: tuple[Shard, ...], source: Path) -> None:
    tensors = {shard.name: shard.shapes for shard in shards}
    for tensor, name in index["weight_map"].items():
        if tensor not in tensors[name]:
            raise CheckpointError(
                f"{source}: weight_map has {shown(tensor)} in {shown(name)}, where it is missing"
            )


def _shard(folder: Path, name: str, config: Json) -> Shard:
    path, file = locate(folder, name), open_plain(folder, name)
    if path is None or file is None:
        raise CheckpointError(f"{folder}: {name} is missing{_other_weights(folder, config)}")
    with file:
        header = read_header(file, os.fstat(file.fileno()).st_size, f"{folder / name}")
    return Shard(name, path, header.shapes, header.metadata, header.size)


ELSEWHERE = "write a model folder, a name of `glassformer list`, or OWNER/NAME of the hub"


def _check_folder(path: Path) -> None:
    try:
        if path.is_dir():
            return
        exists, kind = path.exists(), path.suffix.lower()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from None
    if not exists:
        hint = nearly(path) or ELSEWHERE
        raise CheckpointError(f"{path}: no such folder: {hint}")
    if kind in OTHERS:
        raise CheckpointError(f"{path}: {_convert(kind, {})}")
    if kind in ARCHIVES:
        raise CheckpointError(f"{path}: archives are not opened: unpack it, and use the folder")
    raise CheckpointError(
        f"{path}: this is not a folder: write the path of the model folder it is in"
    )


def _other_weights(folder: Path, config: Json) -> str:
    """A hint for a folder without safetensors: other weights in it, and how to convert them."""
    try:
        names = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in OTHERS)
    except OSError:  # the folder may not be listed, or is gone
        names = []
    if not names:
        return ": glassformer reads safetensors"
    name = next((name for name in names if "model" in name), names[0])
    return f"; there is {shown(name)}: {_convert(Path(name).suffix.lower(), config)}"


def _convert(kind: str, config: Json) -> str:
    """A shell command that converts weights. Of the folder it quotes a plain class name only."""
    classes = config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else None
    plain = isinstance(first, str) and re.fullmatch(r"[A-Za-z0-9]{1,60}", first)
    name = first if plain else "AutoModel"
    why = "can run code when it is read" if not OTHERS[kind] else "is a file of another library"
    return (
        f"a {kind} file {why} and is never opened here: if you trust it, convert it, "
        f'python -c "from transformers import {name} as M; '
        f"M.from_pretrained('FOLDER'{OTHERS[kind]}).save_pretrained('NEW')\", and use NEW"
    )
