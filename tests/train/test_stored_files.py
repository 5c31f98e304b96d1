"""A stored file that a resumed run trusts is what the run wrote, or one line says what is not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.checkpoint.folder import CONFIG, MANIFEST, WEIGHTS, verify
from glassformer.data.fingerprints import Fingerprint
from glassformer.data.packing import Plan, Samples, store_plan, stored_plan
from glassformer.errors import CheckpointError, GlassformerError, InputError
from glassformer.strictjson import parse_as
from glassformer.train.build import TokenizerSource
from glassformer.train.compare_results import StoredResult
from glassformer.train.curves import read as read_curve
from glassformer.train.run_dir import RunDir, SkippedRows
from glassformer.train.state import OPTIMISER, TRAINER, TrainerState, read_trainer_state
from glassformer.train.tracking import _run_id

PRINT = {"name": "a.txt", "size": 3, "changed": 5, "digest": "7"}
GOOD: dict[type, dict[str, Any]] = {
    TrainerState: {"step": 6, "tokens": 99, "rows": 1, "skipped": [3], "rollbacks": 1,
                   "best": 0.5, "best_loss": None, "best_step": 4, "worse": 0, "usual": 0.1,
                   "seconds": 2.5},
    SkippedRows: {"skipped": [3, 8], "rollbacks": 2},
    TokenizerSource: {"settings": ["decoder", {}, {}], "files": [PRINT]},
    StoredResult: {"result": {"parameters": 7, "seconds": 0.5, "memory": 9,
                              "metrics": {"loss": 1.5}}, "request": {}, "files": [PRINT]},
}  # fmt: skip
WRONG = [None, True, -1, 2**70, 1.5, "3", [], {}, ["x"], [None], [-1], {"a": 1}, [[1]], "é\0"]


def damages(good: dict[str, Any], draw: random.Random, count: int) -> Iterator[bytes]:
    """Wrong values, missing and foreign fields; then bytes that are changed, cut or repeated."""
    whole = json.dumps(good).encode()
    yield from (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff",
        b"\xef\xbb\xbf" + whole,
        whole + b"}",
        b"[" * 99,
    )
    yield from (json.dumps(good | {"foreign": value}).encode() for value in WRONG)
    for name in good:
        yield json.dumps({key: value for key, value in good.items() if key != name}).encode()
        yield from (json.dumps(good | {name: value}).encode() for value in WRONG)
    for _ in range(count):
        data, place = bytearray(whole), draw.randrange(len(whole))
        how = draw.randrange(4)
        if how == 0:
            data[place] ^= 1 << draw.randrange(8)
        elif how == 1:
            del data[place:]
        elif how == 2:
            data[place:place] = draw.randbytes(draw.randrange(1, 5))
        else:
            data[place:place] = data[place : place + draw.randrange(1, 40)]
        yield bytes(data)


@pytest.mark.parametrize("kind", GOOD, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_fields_are_of_their_types_or_named(kind: type, count: int) -> None:
    parse_as(kind, json.dumps(GOOD[kind]).encode(), "file.json")
    refused = 0
    for data in damages(GOOD[kind], random.Random(kind.__name__), count):
        try:
            record = parse_as(kind, data, "file.json")
        except CheckpointError as error:
            refused += 1
            assert str(error).startswith("file.json: ") and "\n" not in str(error)
        else:
            assert type(record) is kind
    assert refused > 50


def test_a_damaged_log_loses_its_damaged_lines_only(tmp_path: Path) -> None:
    lines = [json.dumps({"step": i, "loss": 1.0}).encode() for i in range(1, 7)]
    hostile = [
        b"\xff", b'{"step": 1, "loss": "\x80"}', b"[" * 9_000, b'{"step": 1e999}', b"null", b"3",
        b'{"step": ' + b"9" * 400 + b"}", b'{"step": null}', b'{"step": NaN}', b'{"step": {}}', b"",
    ]  # fmt: skip
    run = RunDir(tmp_path, {}, {})
    run.metrics.write_bytes(b"\n".join([*hostile, *lines, b'{"step": 2, "lo']))
    assert read_curve(tmp_path).train[0][0] == 1.0
    run.rewind(4)
    assert run.metrics.read_bytes().splitlines() == lines[:4]


@pytest.mark.parametrize("data", [b"[]", b'{"skipped": 3, "rollbacks": 1}', b'{"skipped": []}'])
def test_wrong_rows_to_skip_are_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "skipped.json").write_bytes(data)
    with pytest.raises(InputError, match=r"skipped\.json: "):
        RunDir(tmp_path, {}, {}).bad_rows()


@pytest.mark.parametrize("step", ["6", None, -1, 10**9, 1.5, [], True])
def test_the_state_of_a_trainer_has_its_types(tmp_path: Path, step: object) -> None:
    (tmp_path / TRAINER).write_text(json.dumps({"step": step}))
    with pytest.raises(CheckpointError, match=r"trainer\.json: step: "):
        read_trainer_state(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        lambda digests: {},
        lambda digests: {n: d for n, d in digests.items() if n != WEIGHTS},
        lambda digests: {n: d for n, d in digests.items() if n != OPTIMISER},
        lambda digests: {n: d for n, d in digests.items() if n != "tokenizer.json"},
        lambda digests: digests | {CONFIG: None},
        lambda digests: digests | {WEIGHTS: 5},
        lambda digests: digests | {"../x": "0"},
        lambda digests: digests | {"no such file": "0"},
    ],
)
def test_a_manifest_names_every_file(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    from hashlib import sha256

    digests = {}
    for name in (CONFIG, WEIGHTS, OPTIMISER, TRAINER, "tokenizer.json"):
        (tmp_path / name).write_bytes(name.encode())
        digests[name] = sha256(name.encode()).hexdigest()
    (tmp_path / MANIFEST).write_text(json.dumps(digests))
    verify(tmp_path, OPTIMISER, TRAINER)
    (tmp_path / MANIFEST).write_text(json.dumps(change(digests)))
    with pytest.raises(CheckpointError):
        verify(tmp_path, OPTIMISER, TRAINER)


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=pytest.mark.slow)])
def test_a_damaged_plan_is_made_again(tmp_path: Path, count: int) -> None:
    import numpy as np

    plan = Plan(Samples(np.arange(60).reshape(-1, 2)), np.array([0, 10, 30]))
    path = tmp_path / "epoch-00000.safetensors"
    store_plan(plan, path, "key")
    whole, draw = path.read_bytes(), random.Random(5)
    for _ in range(count):
        data = bytearray(whole)
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(data if draw.random() < 0.8 else data[: draw.randrange(len(data))])
        stored = stored_plan(path, "key")
        assert stored is None or np.array_equal(stored.samples.first, plan.samples.first)


def test_the_id_of_a_run_is_one(tmp_path: Path) -> None:
    name = _run_id(tmp_path)
    assert _run_id(tmp_path) == name
    for data in (b"", b"\xff" * 32, b"../x", name.encode() * 2):
        (tmp_path / "run_id").write_bytes(data)
        with pytest.raises(GlassformerError, match=r"run_id: .* is not the id of a run"):
            _run_id(tmp_path)


def test_fingerprints_are_read_back() -> None:
    source = parse_as(TokenizerSource, json.dumps(GOOD[TokenizerSource]).encode(), "f")
    assert source.files == [Fingerprint("a.txt", 3, 5, "7")]
