"""One process or many, as started by torchrun."""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from glassformer.distributed.heartbeat import Heartbeat
from glassformer.distributed.store import open_store
from glassformer.errors import CheckpointError, ConfigError, GlassformerError, check_device_name

TIMEOUT = timedelta(minutes=10)  # of an operation in which all processes are alive


@dataclass(frozen=True)
class DistributedContext:
    rank: int
    size: int
    device: torch.device
    store: Any = None
    heartbeat: Heartbeat | None = None
    _waits: Iterator[int] = field(default_factory=itertools.count)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes and prints."""
        return self.rank == 0

    def seed(self, seed: int) -> None:
        """Seed the CPU's and this device's generators. `torch.manual_seed` would query all kinds
        of devices: 0.2 ms where there are none."""
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum `tensor` over all processes, in place."""
        if self.size > 1:
            with self.reporting():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Wait until all processes have got here, however long one of them works."""
        if self.size == 1:
            return
        with self.reporting():
            if self.store is not None:  # the group is not somebody else's
                self._wait_in_store(f"wait/{next(self._waits)}")
            dist.barrier()  # the process with the store must not end before the others have read it

    def _wait_in_store(self, key: str) -> None:
        """Operations of the group have a timeout; this has none."""
        pause = 0.001
        self.store.add(key, 1)
        while self.store.add(key, 0) < self.size:
            time.sleep(pause)
            pause = min(2 * pause, 0.25)

    def close(self) -> None:
        """Leave the process group."""
        if self.heartbeat is not None:
            self.heartbeat.stop()
        if self.store is not None and dist.is_initialized():
            dist.destroy_process_group()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """When a process dies, an operation of the others fails: report that in one line."""
        try:
            yield
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, CheckpointError) as error:
            _keep_group()
            dead = [] if self.heartbeat is None else self.heartbeat.dead()
            if not dead:
                raise
            reason = " ".join(str(error).split())
            raise GlassformerError(
                f"{', '.join(dead)} has ended; see its output for the reason ({reason:.200})"
            ) from None


def _keep_group() -> None:
    """Never free the group of an operation that failed. Whoever frees it waits for its threads, and
    may hold the interpreter's lock, which these threads need to free the operation."""
    if dist.is_initialized():
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(dist.group.WORLD))


def join(
    device: str = "auto", option: str = "train.device =", *, group: bool = False
) -> DistributedContext:
    """Join the processes that torchrun started, if any; `group`: form a group even of one process.
    `option` names the device's setting in an error message."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    resolved = resolve_device(device, option)
    if (size == 1 and not group) or dist.is_initialized():
        return DistributedContext(rank, size, resolved)
    backend = "cpu:gloo,cuda:nccl" if resolved.type == "cuda" else "gloo"
    try:
        store = open_store(rank, size)
        dist.init_process_group(
            backend, store=dist.PrefixStore("group", store), rank=rank, world_size=size,  # type: ignore[attr-defined]
            timeout=TIMEOUT,
        )  # fmt: skip
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise GlassformerError(
            f"process {rank} of {size} could not join the others: {reason:.200}"
        ) from None
    heartbeat = Heartbeat(store, rank, size) if size > 1 else None
    return DistributedContext(rank, size, resolved, store, heartbeat)


def check_device(name: str, option: str) -> str:
    """The kind of device that this name stands for; ConfigError if this machine has none.

    `option` names the device's setting in an error message.
    """
    check_device_name(name, option)
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next((kind for kind, usable in available.items() if usable), "cpu")
    if not available.get(name, True):
        raise ConfigError(f"{option} {name!r}: this machine has none: write auto or cpu")
    return name


def resolve_device(name: str, option: str) -> torch.device:
    """The device of this process, as `check_device`."""
    name = check_device(name, option)
    if name == "cuda":
        number = int(os.environ.get("LOCAL_RANK", 0))
        torch.cuda.set_device(number)
        return torch.device("cuda", number)
    return torch.device(name)
