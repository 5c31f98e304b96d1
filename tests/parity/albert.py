"""ALBERT against transformers': the data of its parity tests."""

from transformers import AlbertConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "embedding_size": 10,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "type_vocab_size": 2,
}
CLASSES = (
    "AlbertForMaskedLM",
    "AlbertModel",
    "AlbertForPreTraining",
    "AlbertForSequenceClassification",
    "AlbertForTokenClassification",
    "AlbertForQuestionAnswering",
)
CASES = [Case(name, AlbertConfig, SIZES) for name in CLASSES]
CONTROLS = (
    {"num_hidden_layers": 2},
    {"layer_norm_eps": 1e-2},
    {"hidden_act": "relu"},
    {"num_attention_heads": 6},
)
VARIANTS = (
    Case("AlbertForMaskedLM", AlbertConfig, SIZES | {"hidden_act": "gelu"}),
    Case("AlbertForMaskedLM", AlbertConfig, SIZES | {"tie_word_embeddings": False}),
)
