"""LoRA adapters, in the file layout of PEFT: small weights beside a model that stays as it is."""

from glassformer.adapters.adapter import (
    Adapter,
    fixed_names,
    head_names,
    merged,
    new_adapter,
    peft_fields,
)
from glassformer.adapters.peft import read_adapter, write_adapter
from glassformer.adapters.routing import routed

__all__ = [
    "Adapter", "fixed_names", "head_names", "merged", "new_adapter", "peft_fields", "read_adapter",
    "routed", "write_adapter",
]  # fmt: skip
