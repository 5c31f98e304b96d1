"""Interpretability: a recorder fills a trace, and a trace can be measured, shown and edited."""

from glassformer.glass.ablation import Effect, effect, heads_off, units_off
from glassformer.glass.alignment import Alignment, align_tokens
from glassformer.glass.edits import patched, put, swapped, word_id
from glassformer.glass.heads import head_measures, head_scores, head_types, repeated, strongest
from glassformer.glass.lens import Decision, Prediction, decided, lens, predictions
from glassformer.glass.measures import distance, entropy, rollout, separators, sink_share
from glassformer.glass.path import WordPath, between, word_path
from glassformer.glass.recorder import Edit, Keep, Recorder, ablate
from glassformer.glass.stacks import TraceShape, sides, stacks, stream, weights
from glassformer.glass.trace import Trace
from glassformer.glass.values import value_parts, value_weighted

__all__ = [
    "Alignment",
    "Decision",
    "Edit",
    "Effect",
    "Keep",
    "Prediction",
    "Recorder",
    "Trace",
    "TraceShape",
    "WordPath",
    "ablate",
    "align_tokens",
    "between",
    "decided",
    "distance",
    "effect",
    "entropy",
    "head_measures",
    "head_scores",
    "head_types",
    "heads_off",
    "lens",
    "patched",
    "predictions",
    "put",
    "repeated",
    "rollout",
    "separators",
    "sides",
    "sink_share",
    "stacks",
    "stream",
    "strongest",
    "swapped",
    "units_off",
    "value_parts",
    "value_weighted",
    "weights",
    "word_id",
    "word_path",
]  # fmt: skip
