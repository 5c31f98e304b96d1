"""The model that `gf.load` returns: `base.py` holds and saves it, `model.py` has its calls."""

from glassformer.loaded.base import FINGERPRINT
from glassformer.loaded.loading import load, record
from glassformer.loaded.model import Model

__all__ = ["FINGERPRINT", "Model", "load", "record"]
