"""Marian, the translation transformer, equals transformers'."""

import pytest
from transformers import MarianConfig

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
    "scale_embedding": True,
    "activation_function": "silu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "forced_eos_token_id": 1,
    "decoder_start_token_id": 0,
}
CASES = [Case(name, MarianConfig, SIZES) for name in ("MarianMTModel", "MarianModel")]
VARIANTS = (
    Case("MarianMTModel", MarianConfig, SIZES | {"scale_embedding": False}),
    Case(
        "MarianMTModel",
        MarianConfig,
        SIZES | {"d_model": 132, "encoder_attention_heads": 11, "decoder_attention_heads": 11},
        width=132,
    ),
)
CONTROLS = ({"scale_embedding": False}, {"activation_function": "gelu"})


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
