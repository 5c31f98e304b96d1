"""BERT and its heads equal transformers'."""

import pytest
from transformers import BertConfig

from kit import Case, check_control, check_double, check_parity

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}
CLASSES = (
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)
CASES = [Case(name, BertConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"hidden_act": "gelu_new"},
    {"layer_norm_eps": 1e-2},
    {"num_attention_heads": 6},
)
WIDE = Case(
    "BertForMaskedLM",
    BertConfig,
    SIZES | {"hidden_size": 132, "num_attention_heads": 11, "hidden_act": "relu"},
    width=132,
)


@pytest.mark.parametrize("case", [*CASES, WIDE], ids=str)
def test_parity(case: Case, tmp_path) -> None:
    check_parity(case, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parity_in_float64(case: Case, tmp_path) -> None:
    check_double(case, tmp_path)


@pytest.mark.parametrize("control", CONTROLS, ids=str)
def test_a_wrong_config_is_noticed(control: dict[str, object], tmp_path) -> None:
    check_control(CASES[1], control, tmp_path)
