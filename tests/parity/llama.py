"""Llama against transformers': the data of its parity tests."""

from transformers import LlamaConfig

from kit import Case
from parity import GROUPED_SIZES as SIZES

CLASSES = (
    "LlamaForCausalLM",
    "LlamaModel",
    "LlamaForSequenceClassification",
    "LlamaForTokenClassification",
)
LONG = {  # with these lengths each of the three bands of wavelengths has a pair of entries
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = [Case(name, LlamaConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"}},
    {"rms_norm_eps": 1e-2},
    {"hidden_act": "gelu"},
)
VARIANTS = (
    Case("LlamaForCausalLM", LlamaConfig, SIZES | {"tie_word_embeddings": True}),
    Case("LlamaForCausalLM", LlamaConfig, SIZES | {"head_dim": 10, "attention_bias": True}),
    Case("LlamaForCausalLM", LlamaConfig, SIZES | {"mlp_bias": True, "num_key_value_heads": 6}),
    Case("LlamaForCausalLM", LlamaConfig, SIZES | {"head_dim": 10, "rope_parameters": LONG}),
    Case(
        "LlamaForCausalLM",
        LlamaConfig,
        SIZES | {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 50.0}},
    ),
)
