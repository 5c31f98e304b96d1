"""Adapter folders that are damaged, unknown or unsafe: one line says what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from references import AdapterCase
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassformer as gf
from glassformer.errors import CheckpointError

CASE = AdapterCase("bert", ["query", "value"])
WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
QUERY = "base_model.model.bert.encoder.layer.0.attention.self.query"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapters")
    CASE.adapted(folder / "base").save_pretrained(folder / "adapter")
    return folder


def change_config(**fields: Any) -> Callable[[Path], None]:
    def change(adapter: Path) -> None:
        path = adapter / CONFIG
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change


def change_tensors(change: Callable[[dict[str, Tensor]], None]) -> Callable[[Path], None]:
    def rewrite(adapter: Path) -> None:
        tensors = load_file(adapter / WEIGHTS)
        change(tensors)
        save_file(tensors, adapter / WEIGHTS)

    return rewrite


def put(name: str, make: Callable[[Tensor], Tensor]) -> Callable[[Path], None]:
    return change_tensors(lambda t: t.update({f"{QUERY}.{name}": make(t[f"{QUERY}.{name}"])}))


def drop(name: str) -> Callable[[Path], None]:
    return change_tensors(lambda tensors: tensors.pop(f"{QUERY}.{name}"))


def add(name: str, *shape: int) -> Callable[[Path], None]:
    return change_tensors(lambda tensors: tensors.update({name: torch.zeros(shape)}))


def with_nan(tensor: Tensor) -> Tensor:
    tensor[0, 0] = float("nan")
    return tensor


def nan_and_unknown(adapter: Path) -> None:
    put("lora_A.weight", with_nan)(adapter)
    add("base_model.model.bert.x.weight", 5)(adapter)


def only_pickle(adapter: Path) -> None:
    (adapter / WEIGHTS).rename(adapter / "adapter_model.bin")


def linked_out(adapter: Path) -> None:
    shutil.move(adapter / WEIGHTS, adapter.parent / "elsewhere.safetensors")
    (adapter / WEIGHTS).symlink_to(adapter.parent / "elsewhere.safetensors")


def cut_off(adapter: Path) -> None:
    path = adapter / WEIGHTS
    path.write_bytes(path.read_bytes()[:-7])


def nested(adapter: Path) -> None:
    (adapter / CONFIG).write_text('{"peft_type": ' + "[" * 100_000 + "}")


def large(adapter: Path) -> None:
    (adapter / CONFIG).write_text('{"peft_type": "LORA", "x": "' + "y" * (5 << 20) + '"}')


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "no config": (lambda adapter: (adapter / CONFIG).unlink(), f"{CONFIG} is missing"),
    "no weights": (lambda adapter: (adapter / WEIGHTS).unlink(), f"{WEIGHTS} is missing"),
    "pickle": (only_pickle, f"{WEIGHTS} is missing: other files are not read"),
    "link": (linked_out, "link"),
    "cut off": (cut_off, "not a complete safetensors file"),
    "nested": (nested, CONFIG),
    "large": (large, CONFIG),
    "kind": (change_config(peft_type="LOHA"), "peft_type = 'LOHA' is not supported: only 'LORA'"),
    "bias": (change_config(bias="all"), "bias = 'all' is not supported: only 'none' is"),
    "start": (change_config(init_lora_weights="pissa"), "init_lora_weights = 'pissa'"),
    "unknown": (change_config(new_arithmetic=2), "new_arithmetic = 2 is not supported"),
    "layers": (change_config(layer_replication=[[0, 2]]), "layer_replication = [[0, 2]] is not"),
    "rank": (change_config(r=0), "r = 0: write a number above 0"),
    "rank text": (change_config(r="8"), "r = '8': write a number above 0"),
    "alpha": (change_config(lora_alpha=-1), "lora_alpha = -1: write a number above 0"),
    "pattern": (change_config(alpha_pattern={"(a+)+$": 2}), "alpha_pattern = "),
    "other rank": (change_config(r=4), "the model and r = 4 need"),
    "dora": (change_config(use_dora=True), "lora_magnitude_vector' is missing"),
    "no B": (drop("lora_B.weight"), "lora_B' is missing"),
    "shape": (put("lora_B.weight", lambda t: t[:-1].clone()), "has shape [23, 5]"),
    "integers": (put("lora_A.weight", lambda t: t.to(torch.int32)), "dtype int32"),
    "NaN": (put("lora_A.weight", with_nan), "contains NaN"),
    "name": (add("encoder.weight", 2), "its name must begin with 'base_model.model.'"),
    "map": (add("base_model.model.bert.x.lora_A.weight", 5, 24), "no linear map 'bert.x'"),
    "other": (add("base_model.model.bert.x.weight", 5), "is neither LoRA of a linear map nor"),
    "names before weights": (nan_and_unknown, "is neither LoRA of a linear map nor"),
    "embedding": (
        add("base_model.model.bert.embeddings.word_embeddings.weight", 101, 24), "is neither LoRA"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    change, message = WRONG[name]
    adapter = tmp_path / "adapter"
    shutil.copytree(folder / "adapter", adapter)
    gf.load(folder / "base", adapter=adapter)
    change(adapter)
    with pytest.raises(CheckpointError) as error:
        gf.load(folder / "base", adapter=adapter)
    assert message in str(error.value) and str(adapter) in str(error.value)
    assert "\n" not in str(error.value)


def test_an_adapter_of_another_model(folder: Path, tmp_path: Path) -> None:
    AdapterCase("llama", ["q_proj"]).adapted(tmp_path / "llama")
    with pytest.raises(CheckpointError, match="is it the adapter of another model"):
        gf.load(tmp_path / "llama", adapter=folder / "adapter")


def test_an_adapter_is_no_model(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="this is an adapter: load the model"):
        gf.load(folder / "adapter")


def test_fields_of_newer_versions_that_are_off(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "adapter", tmp_path / "adapter")
    change_config(new_arithmetic=None, other=False)(tmp_path / "adapter")
    gf.load(folder / "base", adapter=tmp_path / "adapter")
