"""Phi-3 against transformers': the data of its parity tests."""

from transformers import Phi3Config

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
    "eos_token_id": 2,
}
CLASSES = (
    "Phi3ForCausalLM",
    "Phi3Model",
    "Phi3ForSequenceClassification",
    "Phi3ForTokenClassification",
)
CASES = [Case(name, Phi3Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = ({"sliding_window": 4}, {"rms_norm_eps": 1e-2}, {"hidden_act": "gelu"})
VARIANTS = (
    Case("Phi3ForCausalLM", Phi3Config, SIZES | {"sliding_window": 5}),
    Case("Phi3ForCausalLM", Phi3Config, SIZES | {"partial_rotary_factor": 0.5}),
)
