"""Model folders in the Hugging Face layout: checked before they are read, written bit for bit."""

from glassformer.checkpoint.card import card_for_hub, model_card
from glassformer.checkpoint.gguf import is_gguf
from glassformer.checkpoint.hub import check_name, find, upload
from glassformer.checkpoint.load import (
    Origin,
    config_text,
    fitting,
    layout_of,
    load_task,
    read_configs,
    save_task,
    storage_dtype,
    widened,
)
from glassformer.checkpoint.tables import ARCHITECTURES
from glassformer.checkpoint.vectors import about_vectors, is_vectors

__all__ = [
    "ARCHITECTURES", "Origin", "about_vectors", "card_for_hub", "check_name", "config_text",
    "find", "fitting", "is_gguf", "is_vectors", "layout_of", "load_task",
    "model_card", "read_configs", "save_task", "storage_dtype", "upload", "widened",
]  # fmt: skip
