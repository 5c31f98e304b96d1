"""Computation for clients: a few jobs at a time, a short queue, none for a client that left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from starlette.requests import Request

from glassformer.asgi.memory import release_memory
from glassformer.asgi.requests import Refused
from glassformer.studio.schemas import JobProgress

T = TypeVar("T")
MAX_RUNNING, MAX_WAITING = 2, 32
HEADER = "x-job"  # the client's name for its request: /api/jobs/NAME says how far it is


class ClientLeft(Exception):
    """The client has disconnected: nobody waits for the response."""


class Cancelled(Exception):
    """The client no longer waits for this work."""


class JobMonitor:
    """How far a job is; `report` raises once its client has left."""

    def __init__(self) -> None:
        self.stopped = Event()
        self.now = JobProgress()

    def check(self) -> None:
        """Raise Cancelled if the client has left."""
        if self.stopped.is_set():
            raise Cancelled

    def report(self, unit: str, done: int, of: int) -> None:
        self.check()
        self.now = JobProgress(unit=unit, done=done, of=of)


Report = Callable[[str, int, int], None]  # unit, done, of: as JobMonitor.report


def silent(unit: str, done: int, of: int) -> None:
    """For work that is not a job: nobody waits for its progress."""


class JobQueue:
    """Runs at most `max_running` jobs at once; refuses more than `max_waiting` others (429)."""

    def __init__(self, max_running: int = MAX_RUNNING, max_waiting: int = MAX_WAITING) -> None:
        self.slots = asyncio.Semaphore(max_running)
        self.max_running, self.max_waiting = max_running, max_waiting
        self.jobs: dict[object, JobMonitor] = {}  # running and waiting, by their names

    async def run(self, request: Request, work: Callable[[JobMonitor], T]) -> T:
        """Run `work` in a thread; its progress is stopped when the client disconnects."""
        if len(self.jobs) >= self.max_running + self.max_waiting:
            raise Refused(429, f"{len(self.jobs)} requests are in progress: try again later")
        progress = JobMonitor()
        name = request.headers.get(HEADER)
        key: object = progress if name is None or name in self.jobs else name
        self.jobs[key] = progress
        left = asyncio.create_task(_disconnected(request))
        job = asyncio.create_task(self._in_slot(work, progress))
        try:
            await asyncio.wait((left, job), return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                return job.result()
            raise ClientLeft
        except asyncio.CancelledError:  # the server shuts down
            raise ClientLeft from None
        finally:
            del self.jobs[key]
            progress.stopped.set()
            left.cancel()
            job.cancel()
            if not self.jobs:
                release_memory()

    def progress(self, name: str) -> JobProgress:
        """How far a job is; refused with 404 if there is none of this name."""
        if name not in self.jobs:
            raise Refused(404, "there is no such job: it has ended")
        return self.jobs[name].now

    async def _in_slot(self, work: Callable[[JobMonitor], T], progress: JobMonitor) -> T:
        async with self.slots:
            thread = asyncio.create_task(asyncio.to_thread(work, progress))
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                # A thread cannot be killed: it keeps its slot until it returns.
                await asyncio.wait((thread,))
                thread.exception()
                raise


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
