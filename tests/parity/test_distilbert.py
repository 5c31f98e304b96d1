"""DistilBERT equals transformers'."""

import pytest
from transformers import DistilBertConfig

from kit import Case, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 3,
    "hidden_dim": 37,
    "max_position_embeddings": 17,
}
CLASSES = (
    "DistilBertForMaskedLM",
    "DistilBertModel",
    "DistilBertForSequenceClassification",
    "DistilBertForTokenClassification",
    "DistilBertForQuestionAnswering",
)
CASES = [Case(name, DistilBertConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"activation": "relu"},
    {"n_heads": 6},
)
VARIANTS = (Case("DistilBertForMaskedLM", DistilBertConfig, SIZES | {"activation": "relu"}),)


@pytest.mark.parametrize("case", [*CASES, *VARIANTS], ids=str)
def test_parity(case: Case, tmp_path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_in_float64(case: Case, tmp_path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(control: dict[str, object], tmp_path) -> None:
    check_control(CASES[0], control, tmp_path)
