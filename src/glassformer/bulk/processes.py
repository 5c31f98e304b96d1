"""Shards in several processes of one machine, each with the model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from glassformer.bulk.shards import ShardResult, ShardWorker, WorkerSpec
from glassformer.processes import in_processes

_spec: WorkerSpec
_worker: ShardWorker | None = None


def shards_in_processes(
    spec: WorkerSpec, numbers: Sequence[int], processes: int
) -> Iterator[ShardResult]:
    """The results of these shards, in the order in which they are finished."""
    return in_processes(_run, numbers, min(processes, len(numbers)), _begin, (spec,))


def _begin(number: int, spec: WorkerSpec) -> None:
    """If there are several GPUs, each process has one of them."""
    global _spec
    _spec = replace(spec, process=number)


def _run(number: int) -> ShardResult:
    global _worker
    if _worker is None:  # here and not in `_begin`: an error is reported to the parent
        _worker = ShardWorker(_spec)
    return _worker.run(number)
