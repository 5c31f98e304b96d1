"""mT5 against transformers': the data of its parity tests."""

from transformers import MT5Config

from kit import Case
from parity.t5 import SIZES

ENCODER = {name: size for name, size in SIZES.items() if name != "num_decoder_layers"}


def cases(name: str, config: type) -> list[Case]:
    """The first with an output matrix of its own, as the published ones have."""
    return [
        Case(f"{name}ForConditionalGeneration", config, SIZES, double=2e-5, untied=True),
        Case(f"{name}Model", config, SIZES, double=2e-5),
        Case(f"{name}EncoderModel", config, ENCODER, double=2e-5),
    ]


CASES = cases("MT5", MT5Config)
CONTROLS = (
    {"relative_attention_max_distance": 13},
    {"feed_forward_proj": "gated-silu"},
)
VARIANTS = (
    Case("MT5ForConditionalGeneration", MT5Config, SIZES),
    Case("MT5ForConditionalGeneration", MT5Config, SIZES | {"feed_forward_proj": "relu"}),
)
