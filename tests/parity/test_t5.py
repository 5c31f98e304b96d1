"""T5 equals transformers'."""

import pytest
from transformers import T5Config

from kit import Case, check_cache, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "d_model": 24,
    "d_kv": 7,
    "d_ff": 37,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "decoder_start_token_id": 0,
}
CLASSES = (
    "T5ForConditionalGeneration",
    "T5Model",
)
CASES = [Case(name, T5Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"relative_attention_max_distance": 13},
    {"layer_norm_epsilon": 1e-2},
)
VARIANTS = (
    Case("T5ForConditionalGeneration", T5Config, SIZES | {"feed_forward_proj": "gated-gelu"}),
    Case("T5ForConditionalGeneration", T5Config, SIZES | {"tie_word_embeddings": False}),
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
