"""mBART against transformers': the data of its parity tests."""

from transformers import MBartConfig

from kit import Case
from parity.bart import SIZES, UNEQUAL

SCALED = SIZES | {"scale_embedding": True}  # as mBART-50
CASES = [
    Case(name, MBartConfig, SCALED) for name in ("MBartForConditionalGeneration", "MBartModel")
]
CONTROLS = ({"scale_embedding": False}, {"activation_function": "relu"})
VARIANTS = (
    Case("MBartForConditionalGeneration", MBartConfig, SIZES),
    Case("MBartForConditionalGeneration", MBartConfig, SCALED | UNEQUAL),
)
