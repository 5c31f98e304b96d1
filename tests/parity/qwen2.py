"""Qwen2 against transformers': the data of its parity tests."""

from transformers import Qwen2Config

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
}
CLASSES = (
    "Qwen2ForCausalLM",
    "Qwen2Model",
    "Qwen2ForSequenceClassification",
    "Qwen2ForTokenClassification",
)
CASES = [Case(name, Qwen2Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"}},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (Case("Qwen2ForCausalLM", Qwen2Config, SIZES | {"tie_word_embeddings": True}),)
