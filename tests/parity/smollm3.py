"""SmolLM3 against transformers': the data of its parity tests."""

from transformers import SmolLM3Config

from kit import Case
from parity import GROUPED_SIZES

SIZES = {
    **GROUPED_SIZES,
    "no_rope_layer_interval": 2,
}
CLASSES = (
    "SmolLM3ForCausalLM",
    "SmolLM3Model",
    "SmolLM3ForSequenceClassification",
    "SmolLM3ForTokenClassification",
)
CASES = [Case(name, SmolLM3Config, SIZES, double=2e-5) for name in CLASSES]
CONTROLS = (
    {"no_rope_layer_interval": 3, "no_rope_layers": [1, 1, 0]},
    {"no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1]},
    {"rms_norm_eps": 1e-2},
)
VARIANTS = (Case("SmolLM3ForCausalLM", SmolLM3Config, SIZES | {"tie_word_embeddings": False}),)
