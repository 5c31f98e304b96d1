"""Shards in several processes of one machine, each with the model."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from itertools import islice
from multiprocessing import connection
from multiprocessing.context import SpawnContext
from typing import Any

from glassformer.bulk.shards import ShardResult, ShardWorker, WorkerSpec
from glassformer.errors import GlassformerError

AHEAD = 2  # shards in the queue for each process

_spec: WorkerSpec
_worker: ShardWorker | None = None


def in_processes(spec: WorkerSpec, numbers: Sequence[int], processes: int) -> Iterator[ShardResult]:
    """The results of these shards, in the order in which they are finished."""
    context = SpawnContext()  # CUDA does not survive a fork
    before = {process.pid for process in multiprocessing.active_children()}
    count = min(processes, len(numbers))
    threads = max(1, (os.cpu_count() or 1) // count)
    pool = ProcessPoolExecutor(
        count, context, initializer=_begin, initargs=(spec, context.Value("i", 0), threads)
    )
    unsent, running = iter(numbers), set[Future[ShardResult]]()
    try:
        while True:
            more = AHEAD * count - len(running)
            running |= {pool.submit(_run, number) for number in islice(unsent, more)}
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
    except BrokenProcessPool:
        raise GlassformerError(
            "a worker process has ended, killed or out of memory: run the same command to resume"
        ) from None
    finally:
        if running:  # after an error there is nothing to wait for: a shard is whole or absent
            for process in multiprocessing.active_children():
                if process.pid not in before:
                    process.terminate()
        pool.shutdown(cancel_futures=True)


def _begin(spec: WorkerSpec, counter: Any, threads: int) -> None:
    """Each process has its share of the cores and, if there are several GPUs, one of them."""
    global _spec
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))
    with counter.get_lock():
        _spec = replace(spec, process=counter.value)
        counter.value += 1


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


def _run(number: int) -> ShardResult:
    global _worker
    if _worker is None:  # here and not in `_begin`: an error is reported to the parent
        _worker = ShardWorker(_spec)
    return _worker.run(number)
