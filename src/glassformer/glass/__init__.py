"""Looking inside: what a recorder keeps becomes a trace."""

from glassformer.glass.recorder import Edit, Keep, Recorder, ablate
from glassformer.glass.trace import Trace

__all__ = ["Edit", "Keep", "Recorder", "Trace", "ablate"]
