"""What a preset is, and the sizes that most of them share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from glassformer.config import ModelConfig, TaskConfig


@dataclass(frozen=True)
class Preset:
    what: str  # a short description
    model: ModelConfig
    task: TaskConfig  # the head it is usually trained with
    reference: tuple[str, str] | None = None  # its classes in transformers: bare, with this head


def sizes(depth: int, width: int) -> dict[str, Any]:
    """All of these models have heads of width 64; in most the MLP is four times as wide."""
    return {"depth": depth, "width": width, "heads": width // 64, "mlp_width": 4 * width}
