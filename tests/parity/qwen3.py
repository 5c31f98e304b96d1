"""Qwen3 against transformers': the data of its parity tests."""

from transformers import Qwen3Config

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
    "head_dim": 10,
}
CLASSES = (
    "Qwen3ForCausalLM",
    "Qwen3Model",
    "Qwen3ForSequenceClassification",
    "Qwen3ForTokenClassification",
)
CASES = [Case(name, Qwen3Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"}},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (
    Case("Qwen3ForCausalLM", Qwen3Config, SIZES | {"tie_word_embeddings": True}),
    Case("Qwen3ForCausalLM", Qwen3Config, SIZES | {"attention_bias": True}),
)
