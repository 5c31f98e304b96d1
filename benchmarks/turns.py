"""Libraries that run in turns, each in a process of its own.

In one process they would slow each other down: the threads of a library stay on their cores for a
while after its last call, and two OpenMP runtimes do not know of each other's threads.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
import warnings
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any, Self

import torch
import transformers

Calls = Mapping[str, Callable[[], Any]]


class Library:
    """The calls that `build` returns, which is a function of a module or a partial of one."""

    def __init__(self, build: Callable[[], Calls], *, shared: bool = False) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, build, shared), daemon=True)
        self.process.start()
        theirs.close()
        self.names: list[str] = self._answer()

    def run(self, name: str) -> tuple[Any, float]:
        """What the call returns, and its seconds: processor time if the machine is shared."""
        self.pipe.send(name)
        answer: tuple[Any, float] = self._answer()
        return answer

    def _answer(self) -> Any:
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.pipe.close()
        self.process.join()


def _serve(pipe: Connection, build: Callable[[], Calls], shared: bool) -> None:
    be_quiet()
    torch.manual_seed(0)
    if shared:
        torch.set_num_threads(1)
    clock = time.process_time if shared else time.perf_counter
    try:
        with torch.no_grad():
            calls = build()
            pipe.send(list(calls))
            while True:
                call = calls[pipe.recv()]
                begin = clock()
                result = call()
                pipe.send((result, clock() - begin))
    except EOFError:  # no more calls
        return
    except Exception as error:
        pipe.send(error)


def be_quiet() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
