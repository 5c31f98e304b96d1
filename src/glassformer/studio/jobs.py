"""Computing for clients: a few at a time, a few in the queue, and nothing for one who has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from starlette.requests import Request

from glassformer.studio.guard import Refused

T = TypeVar("T")
AT_ONCE, MOST_WAITING = 2, 32


class ClientLeft(Exception):
    """The client is gone: nobody wants the answer."""


class JobQueue:
    def __init__(self, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING) -> None:
        self.seats = asyncio.Semaphore(at_once)
        self.at_once, self.most_waiting = at_once, most_waiting
        self.present = 0  # those that compute, and those that wait

    async def do(self, request: Request, work: Callable[[Event], T]) -> T:
        """`work` runs in a thread; its event is set when the client leaves."""
        if self.present >= self.at_once + self.most_waiting:
            raise Refused(429, f"{self.present} requests are under way: wait, and try again")
        self.present += 1
        left = asyncio.create_task(_leaves(request))
        working = asyncio.create_task(self._work(work, stop := Event()))
        try:
            await asyncio.wait((left, working), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientLeft
        except asyncio.CancelledError:  # the studio ends
            raise ClientLeft from None
        finally:
            self.present -= 1
            stop.set()
            left.cancel()
            working.cancel()

    async def _work(self, work: Callable[[Event], T], stop: Event) -> T:
        async with self.seats:
            thread = asyncio.create_task(asyncio.to_thread(work, stop))
            try:
                return await asyncio.shield(thread)
            except asyncio.CancelledError:
                await asyncio.wait((thread,))  # a thread cannot be ended: keep its seat until it is
                thread.exception()
                raise


async def _leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
