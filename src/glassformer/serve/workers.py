"""Several processes that accept connections from one socket; one that dies is replaced.

SIGTERM, SIGINT    all of them finish what they have accepted, and end
SIGHUP             they are replaced one after another: the new one serves before the old one ends
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import SpawnContext, SpawnProcess

from prometheus_client.multiprocess import mark_process_dead

from glassformer.errors import GlassformerError
from glassformer.processes import begin_worker, threads_of
from glassformer.serve.logs import LOG
from glassformer.serve.process import ServeOptions, serve

POLL_SECONDS = 0.2  # until a signal is noticed
RETRY_SECONDS = 5.0  # before a worker that could not start is started again
METRICS = "PROMETHEUS_MULTIPROC_DIR"  # where the workers count, for prometheus-client


@dataclass(eq=False)
class Worker:
    process: SpawnProcess
    pipe: connection.Connection
    serves: bool = False
    error: GlassformerError | None = None  # why it could not start

    def look(self) -> None:
        """Read what it has sent: that it serves, or why it cannot."""
        try:
            if self.pipe.poll():
                self.error = self.pipe.recv()
                self.serves = self.error is None
        except (EOFError, OSError):  # it has ended
            pass

    @property
    def ended(self) -> bool:
        return self.process.exitcode is not None


class Supervisor:
    """Starts, watches and ends the workers of a server."""

    def __init__(self, options: ServeOptions, listening: socket.socket) -> None:
        self.options, self.listening = options, listening
        self.workers: list[Worker] = []
        self.leaving: list[Worker] = []  # replaced ones, which finish what they have accepted
        self.stopping = self.replacing = False
        self.next_start = 0.0  # not before: after a worker that could not start

    def run(self, on_start: Callable[[], None]) -> None:
        """Serve until a signal arrives; raises why a worker cannot start, if none ever has.

        Args:
            on_start: called when all workers serve
        """
        with _metrics_folder(), self._signals():
            try:
                self.workers = [self._start() for _ in range(self.options.workers)]
                for worker in self.workers:
                    self._wait(worker)
                    if not worker.serves and not self.stopping:
                        line = "a worker has ended, killed or out of memory: use fewer --workers"
                        raise worker.error or GlassformerError(line)
                if not self.stopping:
                    on_start()
                while not self.stopping:
                    self._watch()
            finally:
                for worker in self.workers:
                    worker.process.terminate()
                for worker in (*self.workers, *self.leaving):
                    worker.process.join()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def stop(*_: object) -> None:
            self.stopping = True

        def replace(*_: object) -> None:
            self.replacing = True

        handlers = {signal.SIGTERM: stop, signal.SIGINT: stop}
        hangup = getattr(signal, "SIGHUP", None)  # not on Windows
        if hangup is not None:
            handlers[hangup] = replace
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> Worker:
        context = SpawnContext()  # CUDA does not survive a fork
        pipe, other = context.Pipe()
        process = context.Process(target=_work, args=(self.options, self.listening, other))
        process.start()
        other.close()
        return Worker(process, pipe)

    def _wait(self, worker: Worker) -> None:
        """Until it serves or has ended, or until a signal arrives."""
        while True:
            ended = worker.ended  # then all that it has sent is there
            worker.look()
            if worker.serves or ended or self.stopping:
                return
            connection.wait([worker.pipe, worker.process.sentinel], POLL_SECONDS)

    def _watch(self) -> None:
        """Wait a moment, and replace workers that have ended."""
        every = (*self.workers, *self.leaving)
        alive = [worker.process.sentinel for worker in every if not worker.ended]
        connection.wait(alive, POLL_SECONDS)
        for worker in every:
            if not worker.serves:
                worker.look()
        for worker in [worker for worker in self.leaving if worker.ended]:
            self.leaving.remove(worker)
            mark_process_dead(worker.process.pid)
        for i, worker in enumerate(self.workers):
            if worker.ended and time.monotonic() >= self.next_start:
                fields = {"exit_code": worker.process.exitcode, "error": str(worker.error or "")}
                LOG.error("a worker has ended and is replaced", extra={"fields": fields})
                mark_process_dead(worker.process.pid)
                if not worker.serves:
                    self.next_start = time.monotonic() + RETRY_SECONDS
                self.workers[i] = self._start()
        if self.replacing:
            self.replacing = False
            self._replace_all()

    def _replace_all(self) -> None:
        for i, old in enumerate(self.workers):
            new = self._start()
            self._wait(new)
            if not new.serves:
                new.process.terminate()
                self.leaving.append(new)
                if not self.stopping:
                    fields = {"error": str(new.error or "")}
                    LOG.error(
                        "a new worker cannot start: the old ones stay", extra={"fields": fields}
                    )
                return
            old.process.terminate()
            self.workers[i] = new
            self.leaving.append(old)


@contextmanager
def _metrics_folder() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="glassformer-metrics-") as folder:
        os.environ[METRICS] = folder
        try:
            yield
        finally:
            del os.environ[METRICS]


def _work(options: ServeOptions, listening: socket.socket, pipe: connection.Connection) -> None:
    """In a worker."""
    begin_worker(threads_of(options.workers), lambda: signal.raise_signal(signal.SIGTERM))
    try:
        serve(options, listening, lambda: pipe.send(None))
    except GlassformerError as error:
        pipe.send(error)
        sys.exit(error.exit_code)
