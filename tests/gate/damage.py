"""Ways to spoil a good folder, and the table a class of spoilt folders is."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import folders
from gate.wholes import BERT, INDEX, TOKENIZERS, WEIGHTS, Damage


@dataclass(frozen=True)
class Case:
    """A folder, what is done to it, and the words its one line must hold."""

    base: str
    damage: Damage
    words: tuple[str, ...]
    path: str = ""  # below the folder: what is given to `load`


Table = dict[str, Case]


def config(*words: str, base: str = BERT, **changes: Any) -> Case:
    return Case(base, lambda folder: folders.edit_config(folder, **changes), words)


def inside(*words: str, base: str = BERT, **changes: Any) -> Case:
    """A change of tokenizer.json; a name with dots goes down: `model.vocab`."""

    def change(folder: Path) -> None:
        found = json.loads(json.dumps(TOKENIZERS[base]))
        for path, value in changes.items():
            *steps, last = path.replace("__", ".").split(".")
            place = found
            for step in steps:
                place = place[step]
            place[last] = value
        write(folder, "tokenizer.json", found)

    return Case(base, change, ("tokenizer.json", *words))


def content(name: str, data: Any, *words: str, base: str = BERT) -> Case:
    """A file's whole content: bytes, text, or what JSON can hold."""
    return Case(base, lambda folder: write(folder, name, data), (name.split("/")[-1], *words))


def write(folder: Path, name: str, data: Any) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if not isinstance(data, bytes | str):
        data = json.dumps(data)
    path.write_bytes(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data)


def tensors(change: Callable[[dict[str, Tensor]], object], *words: str, base: str = BERT) -> Case:
    return Case(base, lambda folder: folders.edit_tensors(folder, change), words)


def header(change: Callable[[dict[str, Any]], object], *words: str, base: str = BERT) -> Case:
    """The header of the weights, changed by hand; its bytes stay where they are."""

    def edit(folder: Path) -> None:
        found, data = split(folder)
        changed = change(found)
        join(folder, json.dumps(found if changed is None else changed).encode(), data)

    return Case(base, edit, (WEIGHTS, *words))


def raw_header(change: Callable[[bytes], bytes], *words: str) -> Case:
    def edit(folder: Path) -> None:
        found, data = split(folder)
        join(folder, change(json.dumps(found).encode()), data)

    return Case(BERT, edit, (WEIGHTS, *words))


def split(folder: Path, name: str = WEIGHTS) -> tuple[dict[str, Any], bytes]:
    data = (folder / name).read_bytes()
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(
    folder: Path, text: bytes, data: bytes, length: int | None = None, name: str = WEIGHTS
) -> None:
    size = len(text) if length is None else length
    (folder / name).write_bytes(size.to_bytes(8, "little") + text + data)


def index(names: dict[str, Any] | None, *words: str, also: Damage | None = None) -> Case:
    """All tensors in model-1.safetensors, and an index that says what `names` says besides."""

    def change(folder: Path) -> None:
        found = dict.fromkeys(folders.read_tensors(folder), "model-1.safetensors")
        (folder / WEIGHTS).rename(folder / "model-1.safetensors")
        write(folder, INDEX, {"weight_map": {**found, **names} if names is not None else None})
        if also is not None:
            also(folder)

    return Case(BERT, change, (INDEX, *words))


def sparse(name: str, size: int, *words: str, base: str = BERT) -> Case:
    """A file with a hole: large to read, small on the disk."""

    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
        os.truncate(folder / name, size)

    return Case(base, change, (name.split("/")[-1], *words))


def instead(kind: str, name: str) -> Damage:
    """Something that is no plain file under a file's name."""

    def change(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        match kind:
            case "a FIFO":
                os.mkfifo(path)
            case "a socket":
                here = Path.cwd()
                os.chdir(path.parent)  # a socket's path must be short
                with socket.socket(socket.AF_UNIX) as one:
                    one.bind(path.name)
                os.chdir(here)
            case "a folder":
                path.mkdir()
            case "a link":
                (folder.parent / "elsewhere").write_text("{}")
                path.symlink_to(folder.parent / "elsewhere")
            case _:
                path.symlink_to(kind)

    return change


def one_number(value: float, tensor: str, dtype: torch.dtype, place: int, base: str) -> Case:
    def change(found: dict[str, Tensor]) -> None:
        for name in found:
            found[name] = found[name].to(dtype)
        found[tensor].view(-1)[place] = value

    return tensors(change, tensor, "NaN or infinity", base=base)
