"""Several processes of one run, as torchrun would start them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from harness import End, Life, Mischief

from ports import free_port


def as_rank(rank: int, size: int, port: int, mischief: Sequence[Mischief]) -> None:
    """What torchrun tells its processes."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(place, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
    for each in mischief:
        each()


def start(
    count: int, recipe: Path, out: Path, *words: object, mischief: Mischief | None = None,
    everywhere: Mischief | None = None,
) -> list[Life]:  # fmt: skip
    """So many ranks; `mischief` is for the second one alone."""
    port, lives = free_port(), []
    for rank in range(count):
        own = [each for each in (everywhere, mischief if rank == 1 else None) if each]
        begin = partial(as_rank, rank, count, port, own)
        lives.append(Life("pretrain", recipe, "--out", out, *words, mischief=begin))
    return lives


def ranks(count: int, recipe: Path, out: Path, *words: object, **options: Any) -> list[End]:
    """So many ranks, from their start to their end."""
    return [life.end() for life in start(count, recipe, out, *words, **options)]


def notice_soon() -> None:
    """Processes that wait a second, not four, until they report one that is dead."""
    from glassformer.distributed import heartbeat

    heartbeat.INTERVAL, heartbeat.PROBE = 0.1, 1.0


def note_rows(folder: Path) -> None:
    """Write down which rows each step reads: its number, and a hash of the row's tokens."""
    from glassformer.train import loop

    folder.mkdir(parents=True, exist_ok=True)
    take_step = loop.take_step

    def noted(state: Any, rows: Any, world: Any, *arguments: Any) -> Any:
        with (folder / str(world.rank)).open("a") as file:
            for row in rows:
                parts = (row.batch.tokens, row.batch.labels)
                digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts))
                file.write(f"{state.progress.step} {digest.hexdigest()}\n")
        return take_step(state, rows, world, *arguments)

    loop.take_step = noted


def noted_rows(folder: Path) -> list[str]:
    """All lines of all ranks."""
    return sorted(line for file in folder.iterdir() for line in file.read_text().splitlines())


def note_bytes(folder: Path) -> None:
    """Write down the bytes of weights, gradients and optimiser that a process has in a step."""
    from glassformer.train.optim.adamw import AdamW

    folder.mkdir(parents=True, exist_ok=True)
    step = AdamW.step

    def noted(self: AdamW, closure: Any = None) -> Any:
        result = step(self, closure)
        weights = [p for group in self.param_groups for p in group["params"]]
        tensors = [*weights, *(p.grad for p in weights)]
        tensors += [each for p in weights for each in self.state[p].values()]
        size = sum(each.numel() * each.element_size() for each in tensors)
        (folder / os.environ.get("RANK", "0")).write_text(str(size))
        return result

    AdamW.step = noted  # type: ignore[method-assign]


def note_parameters(folder: Path) -> None:
    """Write down the bytes of all parameters that a process has after each step."""
    from glassformer.train import trainer

    folder.mkdir(parents=True, exist_ok=True)
    fit = trainer.fit

    def noted(state: Any, *arguments: Any) -> Any:
        for step in fit(state, *arguments):
            size = sum(_local_bytes(p) for p in state.task.parameters())
            (folder / os.environ.get("RANK", "0")).write_text(str(size))
            yield step

    trainer.fit = noted


def _local_bytes(tensor: Any) -> int:
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return int(local.nbytes)


def noted_bytes(folder: Path) -> list[int]:
    return [int(file.read_text()) for file in sorted(folder.iterdir())]
