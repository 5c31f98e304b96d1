"""Random damage with structure: a seed picks a good folder and one to three changes of it."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from safetensors.torch import save

import folders
from gate.wholes import GPT2, INDEX, PIECES, TOKENIZERS, WEIGHTS, write

Random = random.Random
Files = dict[str, bytes]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 7, 53, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 10**30,
    0.5, -0.0, 1e-300, 1e300, "", "a", "[UNK]", "▁", "é", "x" * 3000, "\x1b[31m", "a\nb", "\0", "A",
    "../a", "/etc/passwd", "(a+)+b", r"\s+", "Sequence", "NFC", "BPE", "Unigram", "gelu", "F64",
    "relu", "full_attention", [], {}, [0], [[]], {"a": 1}, ["a", "b"], [1, 2, 3], {"type": "Fuse"},
    {"type": "Sequence", "decoders": [{"type": "Fuse"}]}, {"String": "a"}, {"Regex": "a|b"},
)  # fmt: skip


def nodes(found: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and under which key or number."""
    for key in list(found) if isinstance(found, dict) else range(len(found)):
        yield found, key
        if isinstance(found[key], dict | list):
            yield from nodes(found[key])


def change_json(data: bytes, draw: Random) -> bytes:
    found = json.loads(data)
    places = list(nodes(found))
    if not places:
        return json.dumps(draw.choice(VALUES)).encode()
    # Few are near the top and many in a vocabulary: half the time, near the top.
    near = places[: 1 + len(places) // 20]
    home, key = draw.choice(near if draw.random() < 0.5 else places)
    value = home[key]
    match draw.randrange(9):
        case 0:
            del home[key]
        case 1 | 2 | 3:
            home[key] = draw.choice(VALUES)
        case 4:
            other, name = draw.choice(places)
            home[key] = other[name] if other is not home else [value]
        case 5 if isinstance(home, dict):
            home[draw.choice([str(key)[:-1], f"{key}s", "type", "a", str(key).upper()])] = home.pop(
                key
            )
        case 5 | 6 if isinstance(value, int | float):
            home[key] = draw.choice(
                [value + 1, value - 1, -value, value * 1000, str(value), [value]]
            )
        case 7 if isinstance(value, list) and value:
            home[key] = draw.choice([value[1:], value + value[:1], value[::-1], value * 3])
        case _:
            home[key] = [value] if draw.random() < 0.5 else {"a": value}
    return json.dumps(found, ensure_ascii=draw.random() < 0.5).encode("utf-8", "surrogatepass")


def change_bytes(data: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(data) + 1)
    to = min(len(data), at + draw.choice([1, 2, 8, 100]))
    match draw.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[to:]
        case 2:
            return data[:at] + draw.randbytes(draw.choice([1, 8, 64])) + data[at:]
        case 3:
            return data[:to] + data[at:to] * draw.choice([1, 3]) + data[to:]
        case 4:
            return (
                data[:at] + draw.choice([b'"', b"[", b"{", b",", b"\0", b"NaN", b"\\"]) + data[to:]
            )
        case _:
            flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in data[at : at + 1])
            return data[:at] + flipped + data[at + 1 :]


def change_weights(data: bytes, draw: Random) -> bytes:
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], data[8 + size :]
    match draw.randrange(4):
        case 0:
            body = change_bytes(body, draw)
        case 1:
            header = change_bytes(header, draw)
        case _:
            header = change_json(header, draw)
    length = len(header) if draw.random() < 0.9 else draw.choice([0, size, 1 << 32, 1 << 63])
    return length.to_bytes(8, "little") + header + body


def change_files(files: Files, draw: Random) -> None:
    """One is gone, or another's."""
    name = draw.choice(sorted(files))
    if draw.random() < 0.5:
        files.pop(name)
    else:
        files[name] = files[draw.choice(sorted(files))]


NUMBERS = (0, 1, 2, 7, 8, 9, 12, 255, 1 << 16, 1 << 31, 1 << 32, 1 << 40, 1 << 63, (1 << 64) - 1)


def change_gguf(data: bytes, draw: Random) -> bytes:
    """Mostly in its header: a length, a count, a type, a letter; or bytes anywhere."""
    places = [found.end() for found in re.finditer(rb"[a-z_0-9]+(?:\.[a-z_0-9]+)+", data)]
    at = draw.choice(
        [0, 4, 8, 16, 24, *(place + draw.choice([0, 4, 8, 12, 16, 24]) for place in places)]
    )
    match draw.randrange(8):
        case 0 | 1:
            return data[:at] + draw.choice(NUMBERS).to_bytes(8, "little") + data[at + 8 :]
        case 2 | 3:
            return (
                data[:at]
                + (draw.choice(NUMBERS) % (1 << 32)).to_bytes(4, "little")
                + data[at + 4 :]
            )
        case 4:
            return data[:at] + change_bytes(data[at : at + 64], draw) + data[at + 64 :]
        case 5:  # one field under the name of another
            one, two = (draw.choice(places) for _ in range(2))
            return data[:one] + data[two : two + 16] + data[one + 16 :]
        case 6:
            end = max(places)
            return data[:end] + change_bytes(data[end:], draw)
        case _:
            return change_bytes(data, draw)


def change_trace(data: bytes, draw: Random) -> bytes:
    """Its header, its tensors, or what it says of itself in the metadata."""
    if draw.random() < 0.5:
        return change_weights(data, draw)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    about = header["__metadata__"]["trace"].encode()
    changed = draw.choice([change_json, change_json, change_bytes])(about, draw)
    header["__metadata__"]["trace"] = changed.decode("utf-8", "replace")
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


class FileMutator:
    """Writes one damaged file after the other, each over the last."""

    def __init__(self, home: Path, base: Path, change: Callable[[bytes, Random], bytes]) -> None:
        self.data, self.change = base.read_bytes(), change
        self.path = home / f"damaged{base.suffix}"
        home.mkdir(parents=True, exist_ok=True)

    def write(self, seed: int) -> Path:
        draw, data = Random(seed), self.data
        for _ in range(draw.choice([1, 1, 2, 3])):
            try:
                data = self.change(data, draw)
            except (ValueError, KeyError, TypeError, AttributeError):  # it was damaged before
                data = change_bytes(data, draw)
        self.path.write_bytes(data)
        return self.path


class Mutator:
    """Writes one damaged folder after the other, each over the last."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "model"
        shutil.rmtree(home, ignore_errors=True)
        self.bases = [folders.files(each) for each in write(home / "whole").values()]
        self.bases += [*map(without_json, self.bases[:2]), sharded(home / "whole" / GPT2)]

    def write(self, seed: int) -> Path:
        draw = Random(seed)
        files = dict(draw.choice(self.bases))
        for _ in range(draw.choice([1, 1, 2, 3])):
            self.change(files, draw)
        shutil.rmtree(self.folder, ignore_errors=True)
        for name, data in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(data)
        return self.folder

    def change(self, files: Files, draw: Random) -> None:
        name = draw.choice(["config.json", "tokenizer.json", *files])
        if name not in files or draw.random() < 0.03:
            return change_files(files, draw)
        ways: list[Callable[[bytes, Random], bytes]] = [change_bytes]
        if name.endswith(".safetensors"):
            ways += [change_weights] * 3
        elif name.endswith(".json"):
            ways += [change_json] * 9
        try:
            files[name] = draw.choice(ways)(files[name], draw)
        except ValueError:  # it was damaged before, and is no JSON any more
            files[name] = change_bytes(files[name], draw)
        return None


def without_json(files: Files) -> Files:
    """With the tokenizer in the files of the first years, and sentence-transformers' own."""
    found = {name: data for name, data in files.items() if name != "tokenizer.json"}
    extra: dict[str, Any] = {
        "tokenizer_config.json": {"do_lower_case": True, "model_max_length": 17},
        "modules.json": [{"idx": 0, "type": "sentence_transformers.models.Pooling"}],
        "1_Pooling/config.json": {"pooling_mode_cls_token": True},
        "sentence_bert_config.json": {"max_seq_length": 16},
    }
    if b'"gpt2"' in files["config.json"]:
        model = TOKENIZERS[GPT2]["model"]
        found["merges.txt"] = "\n".join(map(" ".join, model["merges"])).encode()
        extra["vocab.json"] = model["vocab"]
    else:
        found["vocab.txt"] = "\n".join(PIECES).encode()
    return found | {name: json.dumps(data).encode() for name, data in extra.items()}


def sharded(folder: Path) -> Files:
    tensors, files = folders.read_tensors(folder), folders.files(folder)
    del files[WEIGHTS]
    names = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for file in sorted(set(names.values())):
        files[file] = save({name: t for name, t in tensors.items() if names[name] == file})
    return files | {INDEX: json.dumps({"metadata": {}, "weight_map": names}).encode()}
