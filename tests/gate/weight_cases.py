"""Classes of spoilt weights: the header, the data, NaN and infinity, the index."""

from itertools import product
from pathlib import Path
from typing import Any

import torch

from gate.damage import Case, Table, header, index, instead, one_number, raw_header, tensors, write
from gate.wholes import BERT, GPT2, INDEX, MARIAN, WEIGHTS, WORDS

TABLE, MARIAN_TABLE = WORDS[BERT], "model.shared.weight"


def entry(*words: str, **changes: Any) -> Case:
    """One tensor's entry of the header with other values, or without some."""

    def change(found: dict[str, Any]) -> None:
        found[TABLE] = {k: v for k, v in (found[TABLE] | changes).items() if v is not None}

    return header(change, TABLE, *words)


def empty(*words: str, **about: Any) -> Case:
    """One more tensor, of no bytes."""
    one = {"dtype": "I64", "data_offsets": [0, 0], **about}
    return header(lambda found: found.update({"empty": one}), *words)


def length(number: int | bytes, *words: str) -> Case:
    """The first eight bytes say something else."""

    def change(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        first = number if isinstance(number, bytes) else number.to_bytes(8, "little")
        (folder / WEIGHTS).write_bytes(first + data[8:])

    return Case(BERT, change, (WEIGHTS, *words))


def moved(by: int, *words: str) -> Case:
    def change(found: dict[str, Any]) -> None:
        begin, end = found[TABLE]["data_offsets"]
        found[TABLE]["data_offsets"] = [begin + by, end + by]

    return header(change, "data_offsets", *words)


HEADER: Table = {
    "no bytes of length": length(0, "line 1"),
    "one byte": length(1, "line 1"),
    "a header of 2^63": length(1 << 63, "9,223,372,036,854,775,808"),
    "a header of 2^64 - 1": length((1 << 64) - 1, "18,446,744,073,709,551,615"),
    "a header as long as the file": length(1 << 20, "1,048,576"),
    "a length of the other end": length((100).to_bytes(8, "big"), "header"),
    "broken": raw_header(lambda text: text[:-5] + b"     ", "header", "line 1"),
    "a list": raw_header(lambda text: b"[" + text + b"]", "header", "list"),
    "a tensor twice": raw_header(
        lambda text: text[:-1] + b', "a": {}, "a": {}}', "header", "'a'", "twice"
    ),
    "a byte order mark": raw_header(lambda text: b"\xef\xbb\xbf" + text, "byte order mark"),
    "too deep": raw_header(lambda text: b'{"a":' + b"[" * 99 + b"]" * 99 + b"}", "64 levels"),
    "NaN": raw_header(lambda text: b'{"shape": NaN}', "'shape'", "NaN"),
    "no UTF-8": raw_header(lambda text: b'{"\xff": 1}', "UTF-8"),
    "no dtype": entry("dtype", dtype=None),
    "no shape": entry("shape", shape=None),
    "no offsets": entry("data_offsets", data_offsets=None),
    "something else": entry("dtype, shape and data_offsets", strides=[1]),
    "dtype of numpy": entry("dtype", "'float32'", dtype="float32"),
    "dtype of objects": entry("dtype", "'O'", dtype="O"),
    "dtype of four bits": entry("dtype", "'F4'", dtype="F4"),
    "dtype is a number": entry("dtype", dtype=7),
    "dtype is a list": entry("dtype", dtype=["F32"]),
    "dtype of another width": entry("F64", "5,088 bytes", "2,544", dtype="F64"),
    "shape is a number": entry("shape", "636", shape=636),
    "shape is a text": entry("shape", shape="53,12"),
    "shape of texts": entry("shape", shape=["53", "12"]),
    "shape of true": entry("shape", shape=[True, 636]),
    "shape of fractions": entry("shape", shape=[53.0, 12.0]),
    "shape below zero": entry("shape", "[-53, -12]", shape=[-53, -12]),
    "shape of nine": entry("shape", "at most 8", shape=[53, 12, 1, 1, 1, 1, 1, 1, 1]),
    "shape of 2^64": entry("shape", "18446744073709551616", shape=[1 << 64, 12]),
    "shape that wraps around at 2^64": entry("shape", shape=[1 << 62, 636 << 2]),
    "shape that wraps around at 2^32": entry("shape", shape=[(1 << 32) + 53, 12]),
    "shape of zero": entry("0 bytes", "2,544", shape=[0, 12]),
    "shape of zero and 2^63": empty("'empty'", "281,474,976,710,656", shape=[0, 1 << 63]),
    "shape of zero, 2^62 and 2^62": empty("'empty'", "multiply", shape=[1 << 62, 0, 1 << 62]),
    "shape of zero and 2^49": empty("'empty'", "multiply", shape=[1 << 49, 0]),
    "metadata is null": header(lambda found: found.update(__metadata__=None), "__metadata__"),
    "dtype of eight bits, a power": entry("dtype", "'F8_E8M0'", dtype="F8_E8M0"),
    "dtype of six bits": entry("dtype", "'F6_E2M3'", dtype="F6_E2M3"),
    "offsets the other way": entry("data_offsets", data_offsets=[2544, 0]),
    "one offset": entry("data_offsets", data_offsets=[0]),
    "three offsets": entry("data_offsets", data_offsets=[0, 1, 2]),
    "offsets of text": entry("data_offsets", data_offsets=["0", "2544"]),
    "offsets below zero": entry("data_offsets", data_offsets=[-2544, 0]),
    "offsets of fractions": entry("data_offsets", data_offsets=[0.0, 2544.0]),
    "offsets of 2^64": entry("data_offsets", data_offsets=[1 << 64, (1 << 64) + 2544]),
    "offsets past the end": moved(1 << 40, TABLE),
    "offsets on another tensor": moved(-48),
    "a hole": moved(8),
    "a tensor is null": header(lambda found: found.update({"a": None}), "'a'"),
    "a tensor is a list": header(lambda found: found.update({"a": [1]}), "'a'", "[1]"),
    "metadata is a list": header(lambda found: found.update(__metadata__=["pt"]), "__metadata__"),
    "metadata of numbers": header(
        lambda found: found.update(__metadata__={"a": 1}), "__metadata__"
    ),
    "metadata of objects": header(
        lambda found: found.update(__metadata__={"a": {"b": "c"}}), "__metadata__"
    ),
    "metadata of 2 MB": header(
        lambda found: found.update(__metadata__={"a": "x" * (2 << 20)}), "__metadata__"
    ),
    "no tensors": header(lambda found: {}, "the last tensor, none"),
}  # fmt: skip


def body(change: Any, *words: str) -> Case:
    """Another content of the whole file."""
    return Case(
        BERT, lambda f: (f / WEIGHTS).write_bytes(change((f / WEIGHTS).read_bytes())),
        (WEIGHTS, *words),
    )  # fmt: skip


def without(name: str, base: str = BERT) -> Case:
    return tensors(lambda found: found.pop(name), name.split(".", 1)[1], "missing", base=base)


def shaped(name: str, *shape: int, base: str = BERT, dtype: Any = torch.float32) -> Case:
    return tensors(
        lambda found: found.update({name: torch.zeros(shape, dtype=dtype)}), name,
        str(list(shape)) if dtype == torch.float32 else str(dtype)[6:], base=base,
    )  # fmt: skip


LAYER = "bert.encoder.layer.1.attention.self.query.weight"
DATA: Table = {
    **{f"cut to {keep:.0%}": body(lambda d, k=keep: d[: int(len(d) * k)], "complete safetensors")
       for keep in (0, 0.0003, 0.01, 0.1, 0.5, 0.9, 0.99)},
    "one byte less": body(lambda d: d[:-1], "complete safetensors"),
    "one byte more": body(lambda d: d + b"\0", "complete safetensors"),
    "a file behind it": body(lambda d: d + b"PK\x03\x04" * 99, "complete safetensors"),
    "a text": body(lambda d: b"hello, I am a model", "complete safetensors"),
    "a pickle": body(lambda d: b"\x80\x04cos\nsystem\n.", "complete safetensors"),
    "a zip file": body(lambda d: b"PK\x03\x04" + bytes(60), "complete safetensors"),
    "an HTML page": body(lambda d: b"<!DOCTYPE html><html>404</html>", "complete safetensors"),
    "a pointer of git": body(
        lambda d: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "complete"
    ),
    "no words": without(TABLE),
    "no layer": without(LAYER),
    "no bias": without("bert.embeddings.LayerNorm.bias"),
    "no words to write with": without(MARIAN_TABLE, MARIAN),
    "a row too many": shaped(TABLE, 54, 12),
    "the other way round": shaped(TABLE, 12, 53),
    "no rows": shaped(TABLE, 0, 12),
    "one number": shaped(TABLE),
    "a cube": shaped(TABLE, 1, 53, 12),
    "one layer is wider": shaped(LAYER, 12, 13),
    "whole numbers": shaped(TABLE, 53, 12, dtype=torch.int64),
    "bytes": shaped(TABLE, 53, 12, dtype=torch.uint8),
    "true and false": shaped(TABLE, 53, 12, dtype=torch.bool),
    "complex numbers": shaped(TABLE, 53, 12, dtype=torch.complex64),
    "eight bits": shaped(TABLE, 53, 12, dtype=torch.float8_e4m3fn),
    "a tensor too many": tensors(lambda t: t.update({"evil": torch.ones(3)}), "'evil'"),
    "a layer too many": tensors(
        lambda t: t.update({LAYER.replace("1", "2"): t[LAYER].clone()}), "encoder.layer.2."
    ),
    "a copy that differs": tensors(
        lambda t: t.update({"lm_head.weight": t[WORDS[GPT2]] + 1}), "lm_head.weight", base=GPT2
    ),
    "under two names": tensors(lambda t: t.update({TABLE[5:]: t[TABLE].clone()}), TABLE[5:]),
}  # fmt: skip

KINDS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
NUMBERS: Table = {
    f"{value} in {kind} at {place}": one_number(value, name, KINDS[kind], place, base)
    for value, kind, (base, name, place) in product(
        (float("nan"), float("inf"), float("-inf")), KINDS,
        ((BERT, TABLE, 0), (GPT2, "transformer.ln_f.bias", -1), (MARIAN, MARIAN_TABLE, 635)),
    )
} | {
    "both infinities": tensors(
        lambda t: t[TABLE].view(-1)[:2].copy_(torch.tensor([float("inf"), float("-inf")])),
        TABLE, "NaN or infinity",
    ),
    "nothing but NaN": tensors(lambda t: t[TABLE].fill_(float("nan")), TABLE, "NaN or infinity"),
    "in a tensor of another head": tensors(
        lambda t: t.update({"cls.seq_relationship.bias": torch.tensor([float("nan"), 0])}),
        "cls.seq_relationship.bias", "NaN or infinity",
    ),
}  # fmt: skip


def second(folder: Path) -> None:
    """The first file once more under another name."""
    (folder / "model-2.safetensors").write_bytes((folder / "model-1.safetensors").read_bytes())


BAD_NAMES = {
    "above": "../model-1.safetensors", "far above": "../" * 40 + "etc/passwd",
    "absolute": "/etc/passwd", "absolute, a tensor": "/tmp/evil.safetensors",
    "below": "below/model.safetensors", "dot": "./model-1.safetensors",
    "back": "..\\model-1.safetensors", "drive": "C:\\model.safetensors",
    "address": "https://evil.example/model.safetensors", "NUL": "model\0.safetensors",
    "two lines": "model\n1.safetensors", "escape": "\x1b[2Jmodel.safetensors",
    "tilde": "~/model.safetensors", "empty": "", "folder": ".", "parent": "..",
    "pickle": "pytorch_model.bin", "upper case": "MODEL-1.SAFETENSORS", "half a letter": "\ud800",
    "right to left": "\u202emodel.safetensors", "number": 7, "null": None, "list": ["a"],
}  # fmt: skip
INDEXES: Table = {
    f"a name: {name}": index({TABLE: value}, "weight_map", TABLE)
    for name, value in BAD_NAMES.items()
    if name != "half a letter"
} | {
    "a name: half a letter": index({TABLE: BAD_NAMES["half a letter"]}, "half a character"),
    "a file is missing": Case(
        BERT, index({TABLE: "model-2.safetensors"}).damage, ("model-2.safetensors", "missing")
    ),
    "a tensor in two files": Case(
        BERT, index({TABLE: "model-2.safetensors"}, also=second).damage,
        ("model-2.safetensors", "another file"),
    ),
    "a tensor elsewhere": index({"evil": "model-1.safetensors"}, "weight_map", "'evil'"),
    "no map": index(None, "weight_map"),
    "a map of nothing": index(
        None, "weight_map", also=lambda f: write(f, INDEX, {"weight_map": {}})
    ),
    "a list": index(None, "weight_map", also=lambda f: write(f, INDEX, {"weight_map": [1]})),
    "no object": index(None, "list", also=lambda f: write(f, INDEX, [])),
    "broken": index(None, "line 1", also=lambda f: write(f, INDEX, "{")),
    "NaN": index(None, "NaN", also=lambda f: write(f, INDEX, '{"total_size": NaN}')),
    "a key twice": index(None, "'a'", also=lambda f: write(f, INDEX, '{"a": 1, "a": 1}')),
    "1,001 files": index({f"a{i}": f"{i}.safetensors" for i in range(1001)}, "weight_map", "1,002"),
    "a name of a megabyte": index({TABLE: "x" * 10**6}, "weight_map"),
    "a file that is a link": Case(
        BERT, index({}, also=lambda f: (
            (f / "model-1.safetensors").rename(f.parent / "elsewhere.safetensors"),
            (f / "model-1.safetensors").symlink_to(f.parent / "elsewhere.safetensors"))).damage,
        ("model-1.safetensors", "a link"),
    ),
    "a file that is a FIFO": Case(
        BERT, index({}, also=instead("a FIFO", "model-1.safetensors")).damage,
        ("model-1.safetensors", "a FIFO"),
    ),
}  # fmt: skip

CLASSES = {
    "safetensors header": HEADER,
    "safetensors data": DATA,
    "NaN and infinity": NUMBERS,
    "index and shards": INDEXES,
}
