"""Every architecture gives the numbers of transformers, and would be caught if it did not."""

from pathlib import Path

import pytest

from kit import Case, check_cache, check_compiled, check_control, check_double, check_parity
from parity import (
    bart,
    bert,
    distilbert,
    electra,
    gpt2,
    llama,
    marian,
    modernbert,
    qwen2,
    roberta,
    t5,
)

ALL = (bart, bert, distilbert, electra, gpt2, llama, marian, modernbert, qwen2, roberta, t5)
CLASSES = [case for each in ALL for case in each.CASES]
VARIANTS = [case for each in ALL for case in each.VARIANTS]
CONTROLS = [(each.CASES[0], control) for each in ALL for control in each.CONTROLS]
FIRSTS = {id(each.CASES[0]) for each in ALL}  # compiling takes seconds: other heads in test-all
COMPILED = [
    pytest.param(case, marks=() if id(case) in FIRSTS else pytest.mark.slow)
    for case in (*CLASSES, *VARIANTS)
]
WRITERS = [each.CASES[0] for each in (bart, gpt2, llama, marian, qwen2, t5)]


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
