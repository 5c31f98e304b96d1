"""RoBERTa against transformers': the data of its parity tests."""

from transformers import RobertaConfig

from kit import Case

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
VARIANTS = (
    Case("RobertaForMaskedLM", RobertaConfig, SIZES | {"type_vocab_size": 2}),
    Case("RobertaForMaskedLM", RobertaConfig, SIZES | {"tie_word_embeddings": False}),
)
