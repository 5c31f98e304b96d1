"""Phi-3 against transformers': the data of its parity tests."""

from transformers import Phi3Config

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
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
