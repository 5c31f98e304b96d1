"""MPNet against transformers': the data of its parity tests."""

from transformers import MPNetConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 37,
    "max_position_embeddings": 19,
}
CLASSES = (
    "MPNetForMaskedLM",
    "MPNetModel",
    "MPNetForSequenceClassification",
    "MPNetForTokenClassification",
    "MPNetForQuestionAnswering",
)
CASES = [Case(name, MPNetConfig, SIZES, attention="eager") for name in CLASSES]
CONTROLS = ({"layer_norm_eps": 1e-2},)
UNTIED = SIZES | {"tie_word_embeddings": False}
VARIANTS = (Case("MPNetForMaskedLM", MPNetConfig, UNTIED, attention="eager"),)
