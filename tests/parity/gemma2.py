"""Gemma 2 against transformers': the data of its parity tests."""

from transformers import Gemma2Config

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
    "head_dim": 10,
    "query_pre_attn_scalar": 7,
    "sliding_window": 5,
    "attn_logit_softcapping": 3.0,
    "final_logit_softcapping": 5.0,
}
CLASSES = (
    "Gemma2ForCausalLM",
    "Gemma2Model",
    "Gemma2ForSequenceClassification",
    "Gemma2ForTokenClassification",
)
# SDPA has no cap, so that only its eager attention is right.
CASES = [Case(name, Gemma2Config, SIZES, double=2e-5, attention="eager") for name in CLASSES]
CONTROLS = (
    {"sliding_window": 6},
    {"query_pre_attn_scalar": 10},
    {"attn_logit_softcapping": None},
    {"final_logit_softcapping": None},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (
    Case(
        "Gemma2ForCausalLM",
        Gemma2Config,
        SIZES | {"attn_logit_softcapping": None, "final_logit_softcapping": None},
        attention="eager",
    ),
)
