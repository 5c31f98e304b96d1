"""BART equals transformers'."""

import pytest
from transformers import BartConfig

from kit import Case, check_cache, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "d_model": 24,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 3,
    "encoder_ffn_dim": 37,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
}
CLASSES = (
    "BartForConditionalGeneration",
    "BartModel",
)
CASES = [Case(name, BartConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"scale_embedding": True},
    {"activation_function": "relu"},
)
VARIANTS = (Case("BartForConditionalGeneration", BartConfig, SIZES | {"scale_embedding": True}),)


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
