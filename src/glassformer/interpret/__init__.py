"""Causes: which parts of a model, and which words of a text, made it predict this word."""

from glassformer.interpret.attribution import LogitAttribution, direct_logit_attribution
from glassformer.interpret.circuits import Circuit, Edge, EdgeEffects, edge_effects
from glassformer.interpret.contrast import Contrast, ask, ask_pair
from glassformer.interpret.inputs import InputAttribution, input_attribution
from glassformer.interpret.patching import Sweep, patching_sweep
from glassformer.interpret.probing import Probe, fit_probe
from glassformer.interpret.steering import SteeringVector, steering_vector
from glassformer.interpret.tuned_lens import TunedLens, fit_tuned_lens, logit_lens
from glassformer.interpret.word_vectors import word_vectors

__all__ = [
    "Circuit",
    "Contrast",
    "Edge",
    "EdgeEffects",
    "InputAttribution",
    "LogitAttribution",
    "Probe",
    "SteeringVector",
    "Sweep",
    "TunedLens",
    "ask",
    "ask_pair",
    "direct_logit_attribution",
    "edge_effects",
    "fit_probe",
    "fit_tuned_lens",
    "input_attribution",
    "logit_lens",
    "patching_sweep",
    "steering_vector",
    "word_vectors",
]  # fmt: skip
