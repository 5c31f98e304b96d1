"""Mistral against transformers': the data of its parity tests."""

from transformers import MistralConfig

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
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
