"""Spoilt adapter folders in PEFT's layout, beside a good model."""

import json
import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import glassformer as gf
from gate.attacks import Evil
from gate.damage import Case, Table, content, instead, join, sparse, split
from gate.wholes import BERT, Damage
from glassformer.adapters import new_adapter, write_adapter
from glassformer.fields import AdapterConfig

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
QUERY = "base_model.model.bert.encoder.layer.0.attention.self.query"
A = f"{QUERY}.lora_A.weight"
LABELS = "base_model.model.classifier.weight"


def write_good(model: Path) -> Path:
    """An adapter for a model, in a folder inside its own."""
    folder, base = model / "adapter", gf.load(model)
    adapter = new_adapter(base.task, base.origin, AdapterConfig(rank=2))
    write_adapter(folder, adapter.apply_to(base.task), base.origin, adapter.config, adapter.saved)
    return folder


def config(*words: str, **changes: Any) -> Case:
    return Case(BERT, fields(**changes), (CONFIG, *words))


def fields(**changes: Any) -> Damage:
    def change(folder: Path) -> None:
        path = folder / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def header(change: Callable[[dict[str, Any]], object], *words: str) -> Case:
    def edit(folder: Path) -> None:
        entries, data = split(folder, WEIGHTS)
        change(entries)
        join(folder, json.dumps(entries).encode(), data, name=WEIGHTS)

    return Case(BERT, edit, (WEIGHTS, *words))


def labels(*shape: int) -> Case:
    """The weight of a classifier whose shape has no element, or no rows."""
    size = 4 * (not shape)

    def edit(folder: Path) -> None:
        fields(task_type="SEQ_CLS")(folder)
        entries, data = split(folder, WEIGHTS)
        end = len(data)
        entries[LABELS] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        join(folder, json.dumps(entries).encode(), data + bytes(size), name=WEIGHTS)

    return Case(BERT, edit, (WEIGHTS, LABELS, "labels"))


def pickled(name: str, *words: str) -> Case:
    def change(folder: Path) -> None:
        (folder / WEIGHTS).unlink()
        (folder / name).write_bytes(pickle.dumps(Evil(folder.parent / "canary")))

    return Case(BERT, change, words)


ADAPTERS: Table = {
    **{
        f"{name} is {kind}": Case(BERT, instead(kind, name), (name, kind))
        for name, kind in product((CONFIG, WEIGHTS), ("a FIFO", "a socket", "a folder", "a link"))
    },
    "config of a link to passwords": Case(BERT, instead("/etc/passwd", CONFIG), ("a link",)),
    "weights of a link to a device": Case(BERT, instead("/dev/zero", WEIGHTS), ("a link",)),
    "a pickle beside no weights": pickled("adapter_model.bin", "other files are not read"),
    "a pickle called safetensors": pickled(WEIGHTS, WEIGHTS, "complete"),
    "a config of levels": content(CONFIG, '{"a":' * 20_000, "64 levels"),
    "a config of another encoding": content(CONFIG, b"\xff\xfe{}", "UTF-8"),
    "a config that is a list": content(CONFIG, "[]"),
    "a config of many bytes": sparse(CONFIG, 5 << 20),
    "a key twice": content(CONFIG, '{"r": 2, "r": 3}', "'r'"),
    "a header of many bytes": content(WEIGHTS, (1 << 40).to_bytes(8, "little")),
    "no bytes": content(WEIGHTS, b"", "complete"),
    "code by a name": config("auto_custom = ", auto_custom={"class": "evil.Evil"}),
    "a module of the base": config("layer_replication", layer_replication=[[0, 10**9]]),
    "a pattern that never ends": config("rank_pattern", rank_pattern={"(a+)+$": 2}),
    "a rank of a large number": config("r = ", r=10**12),
    "a rank that is no number": config("r = ", r={}),
    "alpha without end": content(CONFIG, '{"peft_type": "LORA", "lora_alpha": 1e999}', CONFIG),
    "a shape of another rank": header(lambda h: h[A].update(shape=[1, *h[A]["shape"]]), "shape"),
    "sizes cut to 32 bits": header(lambda h: h[A].update(shape=[(1 << 32) + 2, 12]), "shape"),
    "offsets past the end": header(lambda h: h[A].update(data_offsets=[0, 1 << 40]), A),
    "a map of another model": header(lambda h: h.update({f"{QUERY}x.lora_A": h.pop(A)}), "map"),
    "a name that rewrites the screen": header(
        lambda h: h.update({"\x1b[2J": h.pop(A)}), "\\x1b[2J"
    ),
    "labels without a shape": labels(),
    "labels without a row": labels(0, 12),
    "labels without end": labels(1 << 40, 0),
}  # fmt: skip
