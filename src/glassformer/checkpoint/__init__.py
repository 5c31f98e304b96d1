"""Folders in the Hugging Face layout, which is ours too: read with care, written bit for bit."""

from glassformer.checkpoint.card import model_card
from glassformer.checkpoint.gguf import is_gguf
from glassformer.checkpoint.hub import find
from glassformer.checkpoint.load import (
    Origin,
    fitting,
    layout_of,
    load_task,
    read_configs,
    save_task,
)
from glassformer.checkpoint.tables import ARCHITECTURES

__all__ = [
    "ARCHITECTURES", "Origin", "find", "fitting", "is_gguf", "layout_of", "load_task",
    "model_card", "read_configs", "save_task",
]  # fmt: skip
