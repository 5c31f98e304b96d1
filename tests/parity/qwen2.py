"""Qwen2 against transformers': the data of its parity tests."""

from transformers import Qwen2Config

from kit import Case
from parity import GROUPED_SIZES as SIZES

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
