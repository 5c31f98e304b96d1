"""Whether a checkpoint is sharded. Without torch's sharding, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path

SHARDED = "sharded"  # the folder of the shares in a checkpoint


def is_sharded(folder: Path) -> bool:
    return (folder / SHARDED).is_dir()
