"""Mistral against transformers': the data of its parity tests."""

from transformers import MistralConfig

from kit import Case

SIZES = {
    "vocab_size": 101,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "intermediate_size": 37,
    "max_position_embeddings": 17,
    "pad_token_id": 0,
    "sliding_window": 5,
}
CLASSES = (
    "MistralForCausalLM",
    "MistralModel",
    "MistralForSequenceClassification",
    "MistralForTokenClassification",
)
CASES = [Case(name, MistralConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = ({"sliding_window": 6}, {"sliding_window": None}, {"rms_norm_eps": 1e-2})
VARIANTS = (
    Case("MistralForCausalLM", MistralConfig, SIZES | {"sliding_window": None}),
    Case("MistralForCausalLM", MistralConfig, SIZES | {"head_dim": 10, "sliding_window": 2}),
)
