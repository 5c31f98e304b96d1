"""M2M100 and NLLB-200 against transformers': the data of their parity tests."""

from transformers import M2M100Config

from kit import Case
from parity.bart import SIZES, UNEQUAL

CLASSES = ("M2M100ForConditionalGeneration", "M2M100Model")
CASES = [Case(name, M2M100Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"scale_embedding": False},
    {"activation_function": "gelu"},
    {"pad_token_id": 1},  # the positions start after it
)
VARIANTS = (
    Case("M2M100ForConditionalGeneration", M2M100Config, SIZES | UNEQUAL),
    Case("M2M100ForConditionalGeneration", M2M100Config, SIZES | {"scale_embedding": False}),
)
