"""Well-known models by name: their configs, without weights and without torch.

Dropout is as published, except in attention, where it is 0: the fast kernel has none. T5 keeps
it: its config has one rate for all, and its positions need the slower path anyway.
"""

from glassformer.presets.decoders import DECODERS
from glassformer.presets.encoders import ENCODERS
from glassformer.presets.preset import Preset
from glassformer.presets.seq2seq import SEQ2SEQ

__all__ = ["PRESETS", "Preset"]

PRESETS: dict[str, Preset] = ENCODERS | DECODERS | SEQ2SEQ
