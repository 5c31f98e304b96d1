"""umT5, with distances of its own in each layer, against transformers'."""

from transformers import UMT5Config

from kit import Case
from parity.mt5 import cases
from parity.t5 import SIZES

CASES = cases("UMT5", UMT5Config)
CONTROLS = ({"relative_attention_max_distance": 13}, {"layer_norm_epsilon": 1e-2})
VARIANTS = (Case("UMT5ForConditionalGeneration", UMT5Config, SIZES),)
