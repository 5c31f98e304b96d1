"""Every architecture gives the numbers of transformers, and would be caught if it did not."""

from pathlib import Path

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

ALL = (
    albert, bart, bert, deberta, distilbert, electra, gemma2, gemma3, gpt2, gpt_neox, llama,
    m2m_100, marian, mbart, mistral, modernbert, mpnet, mt5, nomic_bert, olmo2, phi3, qwen2, qwen3,
    roberta, smollm3, t5, t5gemma, umt5, xlm_roberta,
)  # fmt: skip
CLASSES = [case for each in ALL for case in each.CASES]
VARIANTS = [case for each in ALL for case in each.VARIANTS]
CONTROLS = [(each.CASES[0], control) for each in ALL for control in each.CONTROLS]
# Compiling takes seconds: one of each family here, with windows, shared heads and a relative bias;
# tests/test_compile.py has three more; all of them are in test-all.
SOME = {id(each.CASES[0]) for each in (modernbert, llama, t5)}
COMPILED = [
    pytest.param(case, marks=() if id(case) in SOME else pytest.mark.slow)
    for case in (*CLASSES, *VARIANTS)
]
WRITERS = [
    each.CASES[0]
    for each in (
        bart, gemma2, gemma3, gpt2, gpt_neox, llama, m2m_100, marian, mbart, mistral, mt5, olmo2,
        phi3, qwen2, qwen3, smollm3, t5, t5gemma, umt5,
    )
]  # fmt: skip


@pytest.mark.parametrize("case", [*CLASSES, *VARIANTS], ids=str)
def test_parity(case: Case, tmp_path: Path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", COMPILED, ids=str)
def test_parity_compiled(case: Case, tmp_path: Path) -> None:
    check_compiled(case, tmp_path)


@pytest.mark.parametrize("case", CLASSES, ids=str)
def test_parity_in_float64(case: Case, tmp_path: Path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize(("case", "control"), CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(case: Case, control: dict[str, object], tmp_path: Path) -> None:
    check_control(case, control, tmp_path)


@pytest.mark.parametrize("case", WRITERS, ids=str)
def test_cached_equals_uncached(case: Case, tmp_path: Path) -> None:
    check_cache(case, tmp_path)
