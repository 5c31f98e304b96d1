"""NomicBERT against transformers': the data of its parity tests."""

from transformers import NomicBertConfig

from kit import Case

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
    "NomicBertForMaskedLM",
    "NomicBertModel",
    "NomicBertForSequenceClassification",
    "NomicBertForTokenClassification",
)
CASES = [Case(name, NomicBertConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"layer_norm_eps": 1e-2},
    {"hidden_act": "gelu"},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0}},
)
VARIANTS = (
    Case("NomicBertForMaskedLM", NomicBertConfig, SIZES | {"hidden_act": "gelu", "head_dim": 10}),
)
