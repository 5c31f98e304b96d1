"""T5Gemma against transformers': the data of its parity tests."""

from transformers import T5GemmaConfig

from kit import Case
from parity import GROUPED_SIZES

ENCODER = {
    **GROUPED_SIZES, "head_dim": 10, "query_pre_attn_scalar": 7, "sliding_window": 3,
    "attn_logit_softcapping": 3.0, "final_logit_softcapping": 5.0,
}  # fmt: skip
DECODER = ENCODER | {
    "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 41,
}  # fmt: skip
SIZES = {"vocab_size": 101, "encoder": ENCODER, "decoder": DECODER}
CLASSES = ("T5GemmaForConditionalGeneration", "T5GemmaModel")
# SDPA has no cap, so that only its eager attention is right.
CASES = [Case(name, T5GemmaConfig, SIZES, double=2e-5, attention="eager") for name in CLASSES]
CONTROLS = (
    {"encoder": ENCODER | {"sliding_window": 4}},
    {"decoder": DECODER | {"sliding_window": 4}},
    {"decoder": DECODER | {"final_logit_softcapping": None}},
)
ALIKE = {"encoder": ENCODER, "decoder": ENCODER}
VARIANTS = (Case(CLASSES[0], T5GemmaConfig, SIZES | ALIKE, attention="eager"),)
