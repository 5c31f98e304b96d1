"""RoBERTa equals transformers'."""

import pytest
from transformers import RobertaConfig

from kit import Case, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 19,
    "type_vocab_size": 1,
}
CLASSES = (
    "RobertaForMaskedLM",
    "RobertaModel",
    "RobertaForSequenceClassification",
    "RobertaForTokenClassification",
    "RobertaForQuestionAnswering",
)
CASES = [Case(name, RobertaConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"layer_norm_eps": 1e-2},
    {"num_attention_heads": 6},
)
VARIANTS = (Case("RobertaForMaskedLM", RobertaConfig, SIZES | {"type_vocab_size": 2}),)


@pytest.mark.parametrize("case", [*CASES, *VARIANTS], ids=str)
def test_parity(case: Case, tmp_path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_in_float64(case: Case, tmp_path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(control: dict[str, object], tmp_path) -> None:
    check_control(CASES[0], control, tmp_path)
