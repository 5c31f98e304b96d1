"""ELECTRA against transformers': the data of its parity tests."""

from transformers import ElectraConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
    "embedding_size": 10,
}
CLASSES = (
    "ElectraForMaskedLM",
    "ElectraModel",
    "ElectraForPreTraining",
    "ElectraForSequenceClassification",
    "ElectraForTokenClassification",
    "ElectraForQuestionAnswering",
)
CASES = [Case(name, ElectraConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"layer_norm_eps": 1e-2},
    {"num_attention_heads": 6},
)
VARIANTS = (
    Case("ElectraForMaskedLM", ElectraConfig, SIZES | {"embedding_size": 24}),
    Case("ElectraForMaskedLM", ElectraConfig, SIZES | {"tie_word_embeddings": False}),
)
