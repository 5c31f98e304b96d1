"""Gemma 3 against transformers': the data of its parity tests."""

from transformers import Gemma3TextConfig

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
    "head_dim": 10,
    "query_pre_attn_scalar": 7,
    "sliding_window": 5,
    "sliding_window_pattern": 2,
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 50_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    },
}
FULL, LOCAL = SIZES["rope_parameters"].values()
CLASSES = (
    "Gemma3ForCausalLM",
    "Gemma3TextModel",
    "Gemma3TextForSequenceClassification",
)
CASES = [Case(name, Gemma3TextConfig, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"sliding_window": 6},
    {"query_pre_attn_scalar": 10},
    {"rope_parameters": {"full_attention": FULL | {"factor": 4.0}, "sliding_attention": LOCAL}},
    {"rope_parameters": {"full_attention": LOCAL, "sliding_attention": LOCAL}},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (
    Case("Gemma3ForCausalLM", Gemma3TextConfig, SIZES | {"final_logit_softcapping": 5.0}),
    Case("Gemma3ForCausalLM", Gemma3TextConfig, SIZES | {"sliding_window_pattern": 6}),
)
