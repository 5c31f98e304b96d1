"""The store where the processes of a run find each other."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

TIMEOUT = 300.0  # seconds until all processes have started
POLL = 0.05


def open_store(rank: int, size: int) -> Any:
    """A store of this start alone. torchrun keeps one store over restarts: a prefix for each start
    hides the addresses of processes that are gone.

    The main process draws the prefix, and the others ask for it by names that nobody used before.
    """
    if size == 1:
        return dist.HashStore()  # type: ignore[attr-defined]
    store, _, _ = next(rendezvous("env://", rank, size))
    if rank == 0:
        name = uuid.uuid4().hex
        _answer(store, name, size)
    else:
        own = uuid.uuid4().hex
        store.set(f"ask/{rank}", own)
        store.wait([f"answer/{own}"], timedelta(seconds=TIMEOUT))
        name = store.get(f"answer/{own}").decode()
        store.add(f"heard/{name}", 1)
    return dist.PrefixStore(f"start-{name}", store)  # type: ignore[attr-defined]


def _answer(store: Any, name: str, size: int) -> None:
    """Until all others have heard it. Some that ask may be gone: they are answered, too."""
    end = time.monotonic() + TIMEOUT
    while store.add(f"heard/{name}", 0) < size - 1:
        for key in (f"ask/{rank}" for rank in range(1, size)):
            if store.check([key]):
                store.set(f"answer/{store.get(key).decode()}", name)
        if time.monotonic() > end:
            raise RuntimeError(f"not all {size} processes started within {TIMEOUT:.0f} s")
        time.sleep(POLL)
