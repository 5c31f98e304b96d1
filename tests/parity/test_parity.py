"""Every architecture gives the numbers of transformers, and would be caught if it did not."""

from pathlib import Path
from typing import Any

import pytest

from kit import Case, check_cache, check_compiled, check_control, check_double, check_parity
from parity import (
    albert,
    bart,
    bert,
    deberta,
    distilbert,
    electra,
    gemma2,
    gemma3,
    gpt2,
    gpt_neox,
    llama,
    m2m_100,
    marian,
    mbart,
    mistral,
    modernbert,
    mpnet,
    mt5,
    nomic_bert,
    olmo2,
    phi3,
    qwen2,
    qwen3,
    roberta,
    smollm3,
    t5,
    t5gemma,
    umt5,
    xlm_roberta,
)
from sampling import mostly_slow

ALL = (
    albert, bart, bert, deberta, distilbert, electra, gemma2, gemma3, gpt2, gpt_neox, llama,
    m2m_100, marian, mbart, mistral, modernbert, mpnet, mt5, nomic_bert, olmo2, phi3, qwen2, qwen3,
    roberta, smollm3, t5, t5gemma, umt5, xlm_roberta,
)  # fmt: skip
CLASSES = [case for each in ALL for case in each.CASES]
VARIANTS = [case for each in ALL for case in each.VARIANTS]
# Architectures that differ from each other in more than their sizes and names.
DIFFERENT = (bert, deberta, gemma3, gpt2, gpt_neox, llama, marian, modernbert, t5, t5gemma)
CONTROLS = [
    param
    for each in ALL
    for param in mostly_slow(
        ((each.CASES[0], control) for control in each.CONTROLS), keep=each in DIFFERENT
    )
]
# `make test` runs a class of each architecture, a variant, a wrong config and a cache of those that
# differ, and BERT's heads; `make test-all` runs everything.
QUICK = {id(case) for each in ALL for case in each.CASES[:1]}
QUICK |= {id(case) for each in DIFFERENT for case in each.VARIANTS[:1]}
QUICK |= {id(case) for case in bert.CASES}
# In float64: one of each family, with windows, shared heads and a relative bias.
SOME = {id(each.CASES[0]) for each in (modernbert, llama, t5)}
CACHED = {id(each.CASES[0]) for each in DIFFERENT}
COMPILED = {id(llama.CASES[0])}  # tests/test_compile.py compiles an encoder
WRITERS = [
    each.CASES[0]
    for each in (
        bart, gemma2, gemma3, gpt2, gpt_neox, llama, m2m_100, marian, mbart, mistral, mt5, olmo2,
        phi3, qwen2, qwen3, smollm3, t5, t5gemma, umt5,
    )
]  # fmt: skip


def quick(cases: list[Case], some: set[int]) -> list[Any]:
    """The others are slow."""
    return [
        pytest.param(case, marks=() if id(case) in some else pytest.mark.slow) for case in cases
    ]


@pytest.mark.parametrize("case", quick([*CLASSES, *VARIANTS], QUICK), ids=str)
def test_parity(case: Case, tmp_path: Path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("case", quick([*CLASSES, *VARIANTS], COMPILED), ids=str)
def test_parity_compiled(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", quick(CLASSES, SOME), ids=str)
def test_parity_in_float64(case: Case, tmp_path: Path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize(("case", "control"), CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(case: Case, control: dict[str, object], tmp_path: Path) -> None:
    check_control(case, control, tmp_path)


@pytest.mark.parametrize("case", quick(WRITERS, CACHED), ids=str)
def test_cached_equals_uncached(case: Case, tmp_path: Path) -> None:
    check_cache(case, tmp_path)
