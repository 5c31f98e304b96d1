"""Sharded checkpoints: each process writes its share, by torch.distributed.checkpoint.

checkpoints/step-00000250/
  sharded/shard-…-model-….safetensors   the shares, with their places in the whole tensors
  config.json, tokenizer.json, …        the model's small files
  trainer.json, manifest.json           as in every checkpoint

A run of any number of processes resumes from it, sharded or not.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import async_save

from glassformer.checkpoint.folder import MANIFEST, digests
from glassformer.checkpoint.sharded import SHARDED
from glassformer.durable import move, not_written, remove, sync, writing
from glassformer.errors import CheckpointError, GlassformerError
from glassformer.train.optim.weights import Weights
from glassformer.train.parallel.base import ParallelWeights
from glassformer.train.parallel.sharded import ShardedWeights

FILES = 32  # of each process: safetensors has one of them at a time in memory, twice, as bytes


class PendingCheckpoint:
    """A checkpoint that the processes are writing. It appears all at once, when it is complete."""

    def __init__(self, folder: Path, future: Future[Any]) -> None:
        self.folder, self._future = folder, future

    def finish(self) -> None:
        """Wait until it is complete, on the main process; elsewhere, until this share is."""
        with _one_line(self.folder):
            self._future.result()


class _Staged:
    """Tensors that are in the host's memory already: torch would copy them once more."""

    should_synchronize_after_execute = False

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        return state_dict

    def synchronize_staging(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """Nothing to free."""


def in_background(device: torch.device) -> bool:
    """Whether the training continues while a checkpoint is written: a CPU would do both."""
    return device.type != "cpu"


def write_sharded(
    weights: ShardedWeights,
    folder: Path,
    tensors: Mapping[str, Tensor],
    texts: Mapping[str, bytes],
    after: Callable[[], None],
) -> PendingCheckpoint:
    """Start to write a checkpoint of these shares; all processes call it. On a GPU it is written
    while the training continues, from a copy in the host's memory. The main process calls `after`
    when it is complete."""
    beside = folder.with_name(f".{folder.name}.tmp-sharded")
    world = weights.world
    if world.is_main:
        shutil.rmtree(beside, ignore_errors=True)
        with writing(folder, 0):
            (beside / SHARDED).mkdir(parents=True)
    world.wait()
    background = in_background(world.device)
    staged = {
        key: weights.as_dtensor(
            _name(key), tensor.detach().to("cpu", copy=background), on_host=True
        )
        for key, tensor in tensors.items()
    }
    writer = HuggingFaceStorageWriter(
        str(beside / SHARDED), fqn_to_index_mapping=_files(tensors), save_distributed=True
    )
    saved = async_save(
        staged, storage_writer=writer, process_group=weights.host_group,
        async_stager=_Staged(),  # type: ignore[arg-type]
    )  # fmt: skip
    assert isinstance(saved, Future)  # noqa: S101
    complete: Future[Any] = Future()

    def finish(future: Future[Any]) -> None:
        try:
            future.result()
            if world.is_main:
                _complete(beside, folder, texts)
                after()
            complete.set_result(None)
        except BaseException as error:
            complete.set_exception(error)

    saved.add_done_callback(finish)
    pending = PendingCheckpoint(folder, complete)
    if not background:
        pending.finish()
    return pending


def _files(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """The number of the file of each tensor, from 1: files of about the same size."""
    total, before, files = sum(tensor.nbytes for tensor in tensors.values()), 0, {}
    for key, tensor in sorted(tensors.items()):
        files[key] = min(FILES, before * FILES // max(1, total) + 1)
        before += tensor.nbytes
    return files


def _complete(beside: Path, folder: Path, texts: Mapping[str, bytes]) -> None:
    for name, data in texts.items():
        (beside / name).parent.mkdir(exist_ok=True)
        (beside / name).write_bytes(data)
    (beside / MANIFEST).write_bytes(json.dumps(digests(beside), indent=2).encode())
    for file in [*beside.rglob("*"), beside]:
        sync(file)
    if folder.exists():  # a damaged one
        remove(folder)
    move(beside, folder)
    sync(folder.parent)


def read_sharded(folder: Path, weights: Weights | ParallelWeights) -> dict[str, Tensor]:
    """The tensors of a sharded checkpoint, or, if the weights are sharded, this process's shares of
    them."""
    reader = HuggingFaceStorageReader(str(folder / SHARDED))
    with _one_line(folder):
        metadata = reader.read_metadata().state_dict_metadata
        targets: dict[str, Any] = {}
        for key, stored in metadata.items():
            name, size = _name(key), stored.size  # type: ignore[union-attr]
            share = torch.empty(weights.share(name, torch.empty(size, device="meta")).shape)
            if isinstance(weights, ShardedWeights):
                share = weights.as_dtensor(name, share, on_host=True)
            targets[key] = share
        with warnings.catch_warnings():  # each process reads alone
            warnings.filterwarnings("ignore", "torch.distributed is disabled")
            load(targets, storage_reader=reader, no_dist=True)
    return {
        key: tensor.to_local() if hasattr(tensor, "to_local") else tensor
        for key, tensor in targets.items()
    }


def _name(key: str) -> str:
    """The parameter that a tensor of a checkpoint belongs to: master/NAME, 0/NAME/exp_avg …"""
    return key.split("/")[1]


@contextmanager
def _one_line(folder: Path) -> Iterator[None]:
    try:
        yield
    except GlassformerError:
        raise
    except (CheckpointException, OSError, RuntimeError, ValueError, KeyError) as error:
        causes = [each for each, _ in getattr(error, "failures", {}).values()]
        cause = causes[0] if causes else error
        if isinstance(cause, OSError):
            raise CheckpointError(not_written(folder, 0, cause)) from None
        reason = " ".join(str(cause).split())
        raise CheckpointError(f"{folder}: {reason:.300}") from None
