"""Several processes of one run, as torchrun would start them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from harness import End, Life

from ports import free_port


def as_rank(rank: int, size: int, port: int, mischief: Any) -> None:
    """What torchrun tells its processes."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    if mischief is not None:
        mischief()


def start(
    count: int, recipe: Path, out: Path, *words: object, mischief: Any = None, of: int = 1
) -> list[Life]:
    """So many ranks; `mischief` is for the one with number `of`."""
    port = free_port()
    return [
        Life(
            "pretrain", recipe, "--out", out, *words,
            mischief=partial(as_rank, rank, count, port, mischief if rank == of else None),
        )
        for rank in range(count)
    ]  # fmt: skip


def ranks(count: int, recipe: Path, out: Path, *words: object, **options: Any) -> list[End]:
    """So many ranks, from their start to their end."""
    return [life.end() for life in start(count, recipe, out, *words, **options)]
