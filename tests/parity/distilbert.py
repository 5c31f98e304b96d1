"""DistilBERT against transformers': the data of its parity tests."""

from transformers import DistilBertConfig

from kit import Case

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
VARIANTS = (
    Case("DistilBertForMaskedLM", DistilBertConfig, SIZES | {"activation": "relu"}),
    Case("DistilBertForMaskedLM", DistilBertConfig, SIZES | {"tie_word_embeddings": False}),
)
