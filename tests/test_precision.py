"""Storage dtype and compute dtype are separate: the same answers on every processor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer as gf
from glassformer import precision
from glassformer.precision import compute_dtype
from sampling import mostly_slow

X86 = {"architecture": "x86_64", "avx512_bf16": False, "amx_bf16": False}
SENTENCES = ["The cat sat on the mat.", "I read a book.", "Where is the station?"]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU without bfloat16 instructions."""
    monkeypatch.setattr(precision, "cpu_bfloat16", lambda: "")


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_bfloat16", lambda: "AMX")


@pytest.mark.parametrize(
    ("capabilities", "level", "expected"),
    [
        ({**X86, "amx_bf16": True}, "AVX512", "AMX"),
        ({**X86, "avx512_bf16": True}, "AVX512", "AVX-512 BF16"),
        ({**X86, "amx_bf16": True}, "DEFAULT", ""),
        (X86, "AVX512", ""),
        ({"architecture": "aarch64", "bf16": True}, "DEFAULT", "ARM BF16"),
        ({"architecture": "aarch64", "bf16": False}, "DEFAULT", ""),
    ],
)
def test_the_cpu_is_asked_for_its_instructions(
    capabilities: dict[str, Any], level: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: level)
    assert precision.cpu_bfloat16.__wrapped__() == expected


def test_an_older_torch_cannot_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert precision.cpu_bfloat16.__wrapped__() == ""


def test_what_is_computed_in_float32(slow: None) -> None:
    assert compute_dtype(torch.bfloat16, "cpu").dtype == torch.float32
    assert compute_dtype(torch.float16, "cpu").dtype == torch.float32
    assert compute_dtype(torch.float64, "cpu").dtype == torch.float64
    assert compute_dtype(torch.float16, "cuda").dtype == torch.float16


def test_what_is_computed_in_bfloat16(fast: None) -> None:
    assert compute_dtype(torch.bfloat16, "cpu").dtype == torch.bfloat16


def dtypes(model: gf.Model) -> set[torch.dtype]:
    return {parameter.dtype for parameter in model.parameters()}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_folder_is_written_back_bit_for_bit(slow: None, tmp_path: Path) -> None:
    model = gf.load("gf-decoder")
    assert dtypes(model) == {torch.float32}
    model.save(tmp_path / "one")
    stored = gf.load("gf-decoder", dtype=torch.bfloat16)
    assert dtypes(stored) == {torch.bfloat16}
    stored.save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_what_was_trained_since_is_not_rounded(slow: None, tmp_path: Path) -> None:
    model = gf.load("gf-decoder")
    with torch.no_grad():
        next(model.parameters()).add_(1e-6)
    model.save(tmp_path / "trained")
    again = gf.load(tmp_path / "trained")
    assert dtypes(again) == {torch.float32}
    for one, other in zip(model.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_precision_that_was_asked_for_is_written(slow: None, tmp_path: Path) -> None:
    gf.load("gf-decoder", dtype=torch.float32).save(tmp_path / "wide")
    assert '"dtype": "float32"' in (tmp_path / "wide" / "config.json").read_text("utf-8")
    gf.load("gf-decoder").export(tmp_path / "as-it-was")
    assert "(bfloat16)" in (tmp_path / "as-it-was" / "README.md").read_text("utf-8")


def test_results_are_float32(slow: None) -> None:
    model = gf.load("gf-encoder", dtype=torch.float16).to(torch.float32)
    assert isinstance(model.embed(SENTENCES).numpy(), np.ndarray)
    half = gf.record(gf.load("gf-encoder"), "The cat sat.")
    assert {tensor.dtype for tensor in half.values()} == {torch.float32}


def test_results_of_a_model_in_bfloat16_are_float32_too() -> None:
    model = gf.load("gf-encoder", dtype=torch.bfloat16)
    assert model.embed(["A cat."]).dtype == torch.float32
    assert model.word("A cat.", "cat").dtype == torch.float32
    assert {tensor.dtype for tensor in gf.record(model, "A cat.").values()} == {torch.float32}


def test_the_same_words_in_both_precisions() -> None:
    narrow, wide = (gf.load("gf-en-ru", dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    assert [str(each) for each in narrow.translate(SENTENCES[:1])] == [
        str(each) for each in wide.translate(SENTENCES[:1])
    ]


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.softmax(-1) - other.softmax(-1)).abs().max())


def test_int8_is_near_float32() -> None:
    decoder, translator = (
        gf.load(name, dtype=torch.float32) for name in ("gf-decoder", "gf-en-ru")
    )
    assert decoder.tokenizer is not None and translator.tokenizer is not None
    ids = [decoder.tokenizer.encode(each).ids for each in SENTENCES]
    sources = [translator.tokenizer.encode(each).ids for each in SENTENCES]
    start = translator.task.backbone.config.ids.start or 0
    targets = [
        [start, *translator.tokenizer.encode(str(each)).ids[:-1]]
        for each in translator.translate(SENTENCES)
    ]
    with torch.no_grad():
        exact = decoder.logits(ids) + translator.logits(sources, targets=targets)
        for model in (decoder, translator):
            model.quantize("int8")
        rounded = decoder.logits(ids) + translator.logits(sources, targets=targets)
    for one, other in zip(exact, rounded, strict=True):
        assert 0 < distance(one, other) < 0.02


def test_int8_fills_blanks_as_float32_does() -> None:
    model = gf.load("gf-encoder", dtype=torch.float32)
    texts = ["She drinks a cup of [MASK].", "He opened the [MASK] and went out."]
    exact = [model.fill(text)[0].candidates for text in texts]
    model.quantize("int8")
    for text, before in zip(texts, exact, strict=True):
        after = {each.id: each.probability for each in model.fill(text, top_k=10)[0].candidates}
        assert max(abs(after[each.id] - each.probability) for each in before) < 0.03
        assert max(after, key=lambda i: after[i]) == before[0].id


def test_int8_says_the_same_words() -> None:
    exact, rounded = gf.load("gf-en-ru"), gf.load("gf-en-ru").quantize("int8")
    for one, other in zip(exact.translate(SENTENCES), rounded.translate(SENTENCES), strict=True):
        assert str(one) == str(other)


OLD = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}


@pytest.mark.parametrize(
    "words",
    mostly_slow([["generate", "gf-decoder", "The old house", "--quantize", "int8"], ["demo"]]),
)
def test_an_old_processor_answers_without_a_warning(words: list[str]) -> None:
    command = [sys.executable, "-W", "error", "-m", "glassformer", *words]
    ran = subprocess.run(command, env={**os.environ, **OLD}, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.strip()) == (0, b""), ran.stderr.decode()
