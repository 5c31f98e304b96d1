"""One process or many: torchrun says which one this is."""

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
        """Only one process writes and prints."""
        return self.rank == 0

    def seed(self, seed: int) -> None:
        """Chance begins anew, here and on the device. `torch.manual_seed` asks all devices that
        there could be: 0.2 ms where there are none."""
        torch.default_generator.manual_seed(seed)
        if self.device.type != "cpu":
            torch.get_device_module(self.device).manual_seed(seed)

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes, in place."""
        if self.size > 1:
            with _together():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        if self.size > 1:
            with _together():
                dist.barrier()

    def close(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


def join(device: str = "auto", said: str = "train.device =") -> DistributedContext:
    """Take this process's place among those that torchrun started, or be alone. `said`: where the
    device was asked for."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    place = _device(device, said)
    if size > 1 and not dist.is_initialized():
        backend = "cpu:gloo,cuda:nccl" if place.type == "cuda" else "gloo"
        with _together():
            dist.init_process_group(backend, store=_store(rank, size), rank=rank, world_size=size)
    return DistributedContext(rank, size, place)


def _store(rank: int, size: int) -> Any:
    """Where the processes find each other. torchrun keeps one over its restarts (torch 2.13): in
    its part for this start nobody finds the addresses of the dead."""
    store, _, _ = next(rendezvous("env://", rank, size))
    one_machine = os.environ.get("LOCAL_WORLD_SIZE") == str(size)  # else each has its own count
    start = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") if one_machine else "0"
    return dist.PrefixStore(f"start-{start}", store)  # type: ignore[attr-defined]


@contextmanager
def _together() -> Iterator[None]:
    """When one process dies the others are told by an error in whatever they share."""
    try:
        yield
    except RuntimeError as error:
        why = " ".join(str(error).split())
        raise GlassformerError(
            f"another process of this run is gone, and what it said tells why ({why:.200})"
        ) from None


def _device(name: str, said: str) -> torch.device:
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next((kind for kind, found in there.items() if found), "cpu")
    elif not there.get(name, True):
        raise ConfigError(f"{said} {name!r}: there is none here: write auto or cpu")
    if name == "cuda":
        number = int(os.environ.get("LOCAL_RANK", 0))
        torch.cuda.set_device(number)
        return torch.device("cuda", number)
    return torch.device(name)
