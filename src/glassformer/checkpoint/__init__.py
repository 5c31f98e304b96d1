"""Folders in the Hugging Face layout, which is ours too: read with care, written bit for bit."""

from glassformer.checkpoint.load import Origin, load_task, read_configs, save_task
from glassformer.checkpoint.tables import ARCHITECTURES

__all__ = ["ARCHITECTURES", "Origin", "load_task", "read_configs", "save_task"]
