"""Computation for clients: a few jobs at a time, a short queue, none for a client that left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from starlette.requests import Request

from glassformer.studio.guard import Refused

T = TypeVar("T")
MAX_RUNNING, MAX_WAITING = 2, 32


class ClientLeft(Exception):
    """The client has disconnected: nobody waits for the response."""


class JobQueue:
    """Runs at most `max_running` jobs at once; refuses more than `max_waiting` others (429)."""

    def __init__(self, max_running: int = MAX_RUNNING, max_waiting: int = MAX_WAITING) -> None:
        self.slots = asyncio.Semaphore(max_running)
        self.max_running, self.max_waiting = max_running, max_waiting
        self.present = 0  # jobs, running and waiting

    async def run(self, request: Request, work: Callable[[Event], T]) -> T:
        """Run `work` in a thread; its event is set when the client of `request` disconnects."""
        if self.present >= self.max_running + self.max_waiting:
            raise Refused(429, f"{self.present} requests are in progress: try again later")
        self.present += 1
        left = asyncio.create_task(_disconnected(request))
        job = asyncio.create_task(self._in_slot(work, stop := Event()))
        try:
            await asyncio.wait((left, job), return_when=asyncio.FIRST_COMPLETED)
            if job.done():
                return job.result()
            raise ClientLeft
        except asyncio.CancelledError:  # the server shuts down
            raise ClientLeft from None
        finally:
            self.present -= 1
            stop.set()
            left.cancel()
            job.cancel()

    async def _in_slot(self, work: Callable[[Event], T], stop: Event) -> T:
        async with self.slots:
            thread = asyncio.create_task(asyncio.to_thread(work, stop))
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
