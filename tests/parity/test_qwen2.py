"""Qwen2 equals transformers'."""

import pytest
from transformers import Qwen2Config

from kit import Case, check_cache, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
}
CLASSES = (
    "Qwen2ForCausalLM",
    "Qwen2Model",
    "Qwen2ForSequenceClassification",
)
CASES = [Case(name, Qwen2Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"}},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (Case("Qwen2ForCausalLM", Qwen2Config, SIZES | {"tie_word_embeddings": True}),)


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
