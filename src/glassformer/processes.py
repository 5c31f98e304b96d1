"""A function in several processes of one machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from multiprocessing import connection
from multiprocessing.context import SpawnContext
from typing import Any, TypeVar

from glassformer.errors import GlassformerError

Item = TypeVar("Item")
Result = TypeVar("Result")
AHEAD = 2  # items in the queue for each process


def in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], count: int,
    setup: Callable[..., None], arguments: tuple[Any, ...], *, ordered: bool = False,
) -> Iterator[Result]:  # fmt: skip
    """The result of each item: as soon as it is there, or in the order of the items.

    Args:
        setup: called with its number and the `arguments` in each process, before the function
    """
    context = SpawnContext()  # CUDA does not survive a fork
    before = {process.pid for process in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(
        count,
        context,
        initializer=_begin,
        initargs=(context.Value("i", 0), threads_of(count), setup, arguments),
    )
    unsent, running = iter(items), list[Future[Result]]()
    try:
        while True:
            more = AHEAD * count - len(running)
            running += [pool.submit(function, item) for item in islice(unsent, more)]
            if not running:
                break
            awaited = running[:1] if ordered else running
            finished = wait(awaited, return_when=FIRST_COMPLETED).done
            running = [future for future in running if future not in finished]
            for future in finished:
                yield future.result()
    except BrokenProcessPool:
        raise GlassformerError(
            "a worker process has ended, killed or out of memory: run the same command to resume"
        ) from None
    finally:
        if running:  # after an error there is nothing to wait for
            for process in multiprocessing.active_children():
                if process.pid not in before:
                    process.terminate()
        pool.shutdown(cancel_futures=True)


def _begin(
    counter: Any, threads: int, setup: Callable[..., None], arguments: tuple[Any, ...]
) -> None:
    begin_worker(threads, partial(os._exit, 1))
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    setup(number, *arguments)


def threads_of(count: int) -> int:
    """The share of the cores of each of so many processes."""
    return max(1, (os.cpu_count() or 1) // count)


def begin_worker(threads: int, end: Callable[[], None]) -> None:
    """In a new process, before it imports torch: its number of threads, and its end.

    Args:
        end: called when the parent has ended
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this one
    threading.Thread(target=_end_with_parent, args=(end,), daemon=True).start()
    for name in ("OMP_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


def _end_with_parent(end: Callable[[], None]) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    end()
