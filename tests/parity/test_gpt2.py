"""GPT-2 and its heads equal transformers'."""

import pytest
from transformers import GPT2Config

from kit import Case, check_cache, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "n_embd": 24,
    "n_layer": 3,
    "n_head": 3,
    "n_positions": 17,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
CLASSES = (
    "GPT2LMHeadModel",
    "GPT2Model",
    "GPT2ForSequenceClassification",
    "GPT2ForTokenClassification",
    "GPT2ForQuestionAnswering",
)
CASES = [Case(name, GPT2Config, SIZES) for name in CLASSES]
CONTROLS = (
    {"activation_function": "gelu"},
    {"scale_attn_weights": False},
    {"layer_norm_epsilon": 1e-2},
    {"n_head": 6},
)
VARIANTS = (
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"scale_attn_weights": False, "n_inner": 41}),
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"tie_word_embeddings": False}),
    Case("GPT2LMHeadModel", GPT2Config, SIZES | {"n_embd": 132, "n_head": 11}, width=132),
)


@pytest.mark.parametrize("case", [*CASES, *VARIANTS], ids=str)
def test_parity(case: Case, tmp_path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_in_float64(case: Case, tmp_path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(control: dict[str, object], tmp_path) -> None:
    check_control(CASES[0], control, tmp_path)


def test_cached_equals_uncached(tmp_path) -> None:
    check_cache(CASES[0], tmp_path)
