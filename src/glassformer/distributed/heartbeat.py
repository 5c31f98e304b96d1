"""Which processes of a run are alive.

A process that was killed closes its connections, and the others notice at once. A host that lost
its network, or its power, does not: the others would wait for it until a timeout of minutes. So
each process counts up a number of its own in the store, and watches those of the others.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

INTERVAL = 1.0  # seconds between two beats
SILENCE = 30.0  # seconds without a beat: the process, or the way to it, is gone
PROBE = 4.0  # seconds in which a process that is alive has beaten, for sure


class Heartbeat:
    """The beats of this process, in a thread, and those it has seen of the others."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.store, self.rank, self.size = store.clone(), rank, size
        self._stopped = threading.Event()
        self.store.set(f"where/{rank}", f"{socket.gethostname()}, process {os.getpid()}")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(INTERVAL)

    def dead(self) -> list[str]:
        """The processes that do not beat, by number and place; takes a few seconds."""
        try:
            socket.create_connection(_address(), PROBE).close()  # cloning would wait for minutes
            store = self.store.clone()
            before = self._counts(store)
            time.sleep(PROBE)
            after = self._counts(store)
            ranks = [r for r in range(self.size) if r != self.rank and before[r] == after[r]]
            return [f"process {r} of {self.size} ({_where(store, r)})" for r in ranks]
        except (RuntimeError, OSError):  # the store is gone with its process
            return [_store_process()]

    def _counts(self, store: Any) -> list[int]:
        return [int(store.add(f"beat/{rank}", 0)) for rank in range(self.size)]

    def _run(self) -> None:
        counts, seen = [0] * self.size, [time.monotonic()] * self.size
        answered = time.monotonic()
        while not self._stopped.wait(INTERVAL):
            try:
                self.store.add(f"beat/{self.rank}", 1)
                now = self._counts(self.store)
            except RuntimeError:
                if time.monotonic() - answered > SILENCE:
                    self._end(_store_process())
                continue
            answered = time.monotonic()
            for rank, count in enumerate(now):
                if count != counts[rank]:
                    counts[rank], seen[rank] = count, answered
                elif answered - seen[rank] > SILENCE and rank != self.rank:
                    where = _where(self.store, rank)
                    self._end(f"process {rank} of {self.size} ({where})")

    def _end(self, who: str) -> None:
        """End this process: its main thread may wait for the other one inside torch."""
        if not self._stopped.is_set():
            line = f"glassformer: {who} has been silent for {SILENCE:.0f} s: this process ends\n"
            os.write(2, line.encode())
            os._exit(1)


def _where(store: Any, rank: int) -> str:
    key = f"where/{rank}"
    return str(store.get(key).decode()) if store.check([key]) else "not started"


def _address() -> tuple[str, int]:
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def _store_process() -> str:
    return "the process with the store, at {}:{},".format(*_address())
