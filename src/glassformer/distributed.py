"""One process or many, as started by torchrun."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from glassformer.errors import ConfigError, GlassformerError


@dataclass(frozen=True)
class DistributedContext:
    rank: int
    size: int
    device: torch.device

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
            with _report_failure():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Wait until all processes have got here."""
        if self.size > 1:
            with _report_failure():
                dist.barrier()

    def close(self) -> None:
        """Leave the process group."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join(device: str = "auto", option: str = "train.device =") -> DistributedContext:
    """Join the processes that torchrun started, if any. `option` names the device's setting in an
    error message."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    resolved = _device(device, option)
    if size > 1 and not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if resolved.type == "cuda" else "gloo"
        with _report_failure():
            dist.init_process_group(backend, store=_store(rank, size), rank=rank, world_size=size)
    return DistributedContext(rank, size, resolved)


def _store(rank: int, size: int) -> Any:
    """The store where the processes find each other. torchrun keeps it over restarts (torch 2.13):
    a prefix for each start hides the addresses of processes that are gone."""
    store, _, _ = next(rendezvous("env://", rank, size))
    one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(size)  # otherwise the counts differ
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if one_machine else "0"
    return dist.PrefixStore(f"start-{start}", store)  # type: ignore[attr-defined]


@contextmanager
def _report_failure() -> Iterator[None]:
    """When a process dies, a collective operation of the others fails: report that in one line."""
    try:
        yield
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise GlassformerError(
            f"another process of this run has ended; see its output for the reason ({reason:.200})"
        ) from None


def _device(name: str, option: str) -> torch.device:
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind, usable in available.items() if usable), "cpu")
    elif not available.get(name, True):
        raise ConfigError(f"{option} {name!r}: this machine has none: write auto or cpu")
    if name == "cuda":
        number = int(os.environ.get("LOCAL_RANK", 0))
        torch.cuda.set_device(number)
        return torch.device("cuda", number)
    return torch.device(name)
