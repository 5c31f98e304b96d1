"""OLMo 2 against transformers': the data of its parity tests."""

from transformers import Olmo2Config

from kit import Case
from parity import GROUPED_SIZES as SIZES

CLASSES = (
    "Olmo2ForCausalLM",
    "Olmo2Model",
    "Olmo2ForSequenceClassification",
)
CASES = [Case(name, Olmo2Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"rope_parameters": {"rope_theta": 20_000.0, "rope_type": "default"}},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (Case("Olmo2ForCausalLM", Olmo2Config, SIZES | {"attention_bias": True}),)
