"""ModernBERT equals transformers'."""

import pytest
from transformers import ModernBertConfig

from kit import Case, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 5,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "local_attention": 6,
    "global_attn_every_n_layers": 2,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "cls_token_id": 1,
    "sep_token_id": 2,
}
CLASSES = (
    "ModernBertForMaskedLM",
    "ModernBertModel",
    "ModernBertForSequenceClassification",
    "ModernBertForTokenClassification",
)
CASES = [Case(name, ModernBertConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"local_attention": 8},
    {"norm_eps": 1e-2},
    {"rope_parameters": {"sliding_attention": {"rope_theta": 20_000.0}}},
)
VARIANTS = (Case("ModernBertForMaskedLM", ModernBertConfig, SIZES | {"num_hidden_layers": 2}),)


@pytest.mark.parametrize("case", [*CASES, *VARIANTS], ids=str)
def test_parity(case: Case, tmp_path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_in_float64(case: Case, tmp_path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(control: dict[str, object], tmp_path) -> None:
    check_control(CASES[0], control, tmp_path)
