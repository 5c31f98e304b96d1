"""Classes of spoilt folders: no plain files, bombs, names that lie, other formats."""

import json
import os
from itertools import product
from pathlib import Path
from typing import Any

import torch

import folders
from gate.damage import (
    Case,
    Table,
    config,
    content,
    header,
    index,
    inside,
    instead,
    join,
    raw_header,
    sparse,
    split,
    tensors,
    write,
)  # fmt: skip
from gate.wholes import BERT, CLASSIFY, GPT2, INDEX, MERGES, WEIGHTS, added

NAMES = ("config.json", WEIGHTS, INDEX, "tokenizer.json", "vocab.txt", "modules.json", "README.md",
         "1_Pooling/config.json", "tokenizer_config.json")  # fmt: skip
KINDS: Table = {
    f"{name} is {kind}": Case(BERT, instead(kind, name), (name, kind))
    for name, kind in product(NAMES, ("a FIFO", "a socket", "a folder", "a link"))
} | {
    f"{name} is a link to {target}": Case(BERT, instead(target, name), (name, "a link", target))
    for name, target in product(
        ("config.json", WEIGHTS, "tokenizer.json"),
        ("/dev/zero", "/dev/stdin", "/proc/self/environ", "/etc/passwd", "nowhere", "config.json",
         "/dev/null", "."),
    )
    if name != target
}  # fmt: skip


def pooling(kind: str) -> Case:
    def change(folder: Path) -> None:
        elsewhere = folder.parent / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "config.json").write_text("{}")
        match kind:
            case "a link":
                (folder / "1_Pooling").symlink_to(elsewhere)
            case "a FIFO":
                os.mkfifo(folder / "1_Pooling")
            case "a file":
                (folder / "1_Pooling").write_text("{}")

    return Case(BERT, change, ("1_Pooling", kind))


KINDS |= {f"1_Pooling is {kind}": pooling(kind) for kind in ("a link", "a FIFO", "a file")}


def cached(target: str, *, blobs: str = "a folder") -> Case:
    """A folder of the hub's cache with one link that leads elsewhere."""

    def change(folder: Path) -> None:
        root = folder / "models--a--b"
        home = root / "snapshots" / "0123"
        home.mkdir(parents=True)
        (folder / "private").mkdir()
        (folder / "private" / "secret").write_text("{}")
        if blobs == "a folder":
            (root / "blobs").mkdir()
            (root / "blobs" / "one").write_bytes((folder / "config.json").read_bytes())
            (root / "blobs" / "link").symlink_to(folder / "private" / "secret")
            (root / "blobs" / "below").mkdir()
            (root / "blobs" / "below" / "one").write_text("{}")
        else:
            (root / "blobs").symlink_to(folder / "private")
        (home / "config.json").symlink_to(target)

    return Case(BERT, change, ("config.json", "a link"), "models--a--b/snapshots/0123")


KINDS |= {
    f"the cache's link leads to {target}": cached(target)
    for target in ("../../private/secret", "../../../private/secret", "/etc/passwd",
                   "../../blobs/link", "../../blobs/below/one", "../../blobs/../../private/secret",
                   "../../blobs/nothing", "../../blobs", "config.json")
} | {"the cache's blobs are a link": cached("../../blobs/secret", blobs="a link")}  # fmt: skip


def many(count: int) -> Any:
    """So many tensors without a number in them."""
    one = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return lambda found: {f"t{i}": one for i in range(count)} | found


def large_weights(size: int) -> Case:
    """A true header for a tensor of zeros that is a hole in the file."""

    def change(folder: Path) -> None:
        found, data = split(folder)
        found["evil"] = {
            "dtype": "U8",
            "shape": [size],
            "data_offsets": [len(data), len(data) + size],
        }
        join(folder, json.dumps(found).encode(), data)
        os.truncate(folder / WEIGHTS, (folder / WEIGHTS).stat().st_size + size)

    return Case(BERT, change, ("bytes of memory", f"{size // 10**12:,}"))


def layers(count: int) -> Case:
    """So many layers, all of them there, and one number wrong in the last."""

    def change(folder: Path) -> None:
        first, last = "encoder.layer.0.", f"encoder.layer.{count - 1}."

        def more(found: dict[str, torch.Tensor]) -> None:
            for name in [name for name in found if first in name]:
                copies = {
                    name.replace(first, f"encoder.layer.{i}."): found[name] for i in range(count)
                }
                found.update(copies)
            found[f"bert.{last}output.LayerNorm.bias"] = torch.zeros(13)

        folders.edit_tensors(folder, more)
        folders.edit_config(folder, num_hidden_layers=count)

    return Case(BERT, change, (f"encoder.layer.{count - 1}.output", "[13]"))


BOMBS: Table = {
    f"{name} of {size:,} bytes": sparse(name, size, f"{size:,}")
    for name, size in (
        ("config.json", (4 << 20) + 1), ("config.json", 1 << 40), (INDEX, 1 << 34),
        ("tokenizer.json", (32 << 20) + 1), ("tokenizer.json", 1 << 40), ("vocab.txt", 1 << 34),
        ("modules.json", 1 << 34), ("1_Pooling/config.json", 1 << 34), ("README.md", 1 << 34),
        ("source.spm", 1 << 34), ("tokenizer_config.json", 1 << 34), ("LICENSE", 5 << 20),
    )
} | {
    "weights of a terabyte without a header": sparse(WEIGHTS, 1 << 40, "the last tensor"),
    "weights of a terabyte of zeros": large_weights(10**12),
    "weights of nine terabytes of zeros": large_weights(9 * 10**12),
    "160 layers": layers(160),
    "300,000 tensors": header(many(300_000), "a header of 19,993,649 bytes"),
    "20,001 tensors": header(many(20_001), "20,"),
    "a header of 20 MB of spaces": raw_header(lambda text: text + b" " * (20 << 20), "header"),
    "a header of 8 MB of lists": raw_header(lambda text: b"[]," * (2 << 20), "header", "values"),
    "a name of a tensor of 4 MB": header(lambda found: found.update({"x" * (4 << 20): 1}), "xxx"),
    "a million lists": content("config.json", '{"a": [' + "[]," * 10**6 + "[]]}", "values"),
    "a million objects": content("config.json", '{"a": [' + "{}," * 10**6 + "{}]}", "objects"),
    "a million numbers": content("config.json", '{"a": [' + "1," * 10**6 + "1]}", "values"),
    "ten million lists": content("tokenizer.json", "[" + "[]," * 10**7 + "[]]", "53 tokens"),
    "a million lists of the tokenizer": content("tokenizer.json", "[]," * 10**6, "values"),
    "a million numbers of the tokenizer": content("tokenizer.json", "1," * 10**6, "values"),
    "4 MB of brackets": content("tokenizer.json", "[" * (4 << 20), "values"),
    "50,000 brackets": content("tokenizer.json", "[" * 50_000, "64 levels"),
    "50,000 brackets in pairs": content("tokenizer.json", "[]" * 50_000, "line 1"),
    "a true tokenizer of a million words": inside("53 tokens", model__vocab={
        f"w{i}": i for i in range(10**6)}),
    "a true vocabulary of a million words": Case(BERT, lambda folder: (
        (folder / "tokenizer.json").unlink(), write(folder, "vocab.txt", "\n".join(
            map(str, range(10**6))))), ("vocab.txt", "53 tokens")),
    "3 MB of true merges": inside("values", base=GPT2, model__merges=MERGES * 50_000),
    "a text of 4 MB in the tokenizer": inside("unk_token", model__unk_token="😀" * 300_000),
    "4 MB of quotes": content("config.json", '"' * (4 << 20), "line 1"),
    "4 MB of backslashes": content("config.json", '"' + "\\" * ((4 << 20) - 2), "line 1"),
    "a text of 4 MB as a size": config("vocab_size", vocab_size="x" * (3 << 20)),
    "a text of 3 MB as a class": config("architectures", architectures=["x" * (3 << 20)]),
    "150,000 keys, one twice": content(
        "config.json", "{" + ",".join(f'"{i}": 1' for i in range(150_000)) + ', "7": 2}', "'7'"
    ),
    "100,000 labels": config(
        "labels", base=CLASSIFY, id2label=None, num_labels=100_000, hidden_size=1200
    ),
    "a map of 100,000 files": index({f"a{i}": f"{i}.safetensors" for i in range(10**5)}, "100,001"),
    "a piece of 4 MB": inside("vocab", "xxx", model__vocab={"x" * (4 << 20): 1}),
    "a template of 10,000 items": inside("single", post_processor={
        "type": "TemplateProcessing", "pair": [], "special_tokens": {},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}] * 10_000}),
    "1 MB of merges in one": inside("merges", base=GPT2, model__merges=["a" * 10**6]),
    "a gzip bomb": content("config.json", bytes.fromhex("1f8b0800") + bytes(10**6), "UTF-8"),
}  # fmt: skip

LIES = {
    "a red name": "\x1b[31mred", "an erased line": "\x1b[2K\rall is well", "a new line": "a\nb",
    "a bell": "\x07", "right to left": "\u202egnp.exe", "no width": "a\u200bb", "a tab": "a\tb",
    "the other new line": "a\u2028b", "a title": "\x1b]0;owned\x07", "a backspace": "a\x08b",
    "one byte": "\x9b31m", "a megabyte": "x" * 10**6,
}  # fmt: skip
LYING: Table = {
    f"{how} in {where}": case
    for how, lie in LIES.items()
    for where, case in {
        "a tensor's name": tensors(lambda t, n=lie: t.update({n: torch.ones(1)}), "tensor"),
        "a field": content("config.json", json.dumps({lie: 1})[:-1] + f", {json.dumps(lie)}: 1}}",
                           "twice"),
        "a value": config("hidden_act", hidden_act=lie),
        "a class": config("architectures", architectures=[lie]),
        "an index": index({lie: "../a"}, "weight_map"),
        "a part": inside("decoder", decoder={"type": lie}),
        "a piece": inside("vocab", model__vocab={lie: -1}),
        "an added token": inside("added_tokens", "id", added_tokens=[added(50, lie[:900])]),
        "a module": content("modules.json", [{"type": lie}]),
    }.items()
}  # fmt: skip


def only(name: str, *words: str, data: bytes = b"\x80\x04N.") -> Case:
    """A folder whose weights are in another format."""

    def change(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        (folder / name).write_bytes(data)

    return Case(BERT, change, (WEIGHTS, name, *words))


def given(name: str, *words: str, data: bytes = b"\x80\x04N.") -> Case:
    """A file where a folder should be given."""
    return Case(BERT, lambda folder: write(folder, name, data), words, name)


TRUST = "if you trust it"
FORMATS: Table = {
    **{f"only {name}": only(name, TRUST, "python -c", "BertForMaskedLM", "save_pretrained")
       for name in ("pytorch_model.bin", "model.pt", "model.pth", "model.ckpt", "model.pkl",
                    "pytorch_model-00001-of-00002.bin", "consolidated.00.pth")},
    "only TensorFlow": only("tf_model.h5", "from_tf=True"),
    "only Flax": only("flax_model.msgpack", "from_flax=True"),
    "only a pickle with a name": only("evil\x1b[2J.bin".replace("\x1b", "_"), TRUST),
    **{f"given {name}": given(name, TRUST, "python -c", "AutoModel")
       for name in ("pytorch_model.bin", "model.pt", "model.pth", "model.CKPT", "model.pkl",
                    "rng_state.pth", "training_args.bin")},
    "given TensorFlow": given("tf_model.h5", "from_tf=True"),
    **{f"given {name}": given(name, "unpack it")
       for name in ("model.zip", "model.tar", "model.tar.gz", "model.tgz", "model.7z")},
    **{f"given {name}": given(name, "not a folder")
       for name in ("model.safetensors", "config.json", "model.onnx", "model.keras")},
    "given a FIFO": Case(BERT, instead("a FIFO", "pipe"), ("not a folder",), "pipe"),
    "given nothing": Case(BERT, lambda folder: None, ("no such folder",), "nothing here"),
    "given a name that is too long": Case(BERT, lambda folder: None, ("long",), "x" * 300),
    "no config": Case(BERT, lambda f: (f / "config.json").unlink(), ("config.json is missing",)),
    "no weights": Case(BERT, lambda f: (f / WEIGHTS).unlink(), (f"{WEIGHTS} is missing",)),
    "only a class that is a command": Case(
        BERT, lambda f: (only("pytorch_model.bin").damage(f), folders.edit_config(
            f, architectures=["x; rm -rf ~"])), (TRUST, "AutoModel")),
}  # fmt: skip

CLASSES = {
    "no plain files": KINDS,
    "bombs": BOMBS,
    "names that lie": LYING,
    "other formats": FORMATS,
}
