"""Results of earlier requests: the most recently used are kept."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from glassformer.asgi.requests import Refused


class CacheEntry(Protocol):
    """A result with its id, the request it answers and its size in memory."""

    @property
    def id(self) -> str: ...

    @property
    def request(self) -> Any: ...

    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=CacheEntry)


class RecentCache(Generic[T]):
    """At most `max_entries` and `max_bytes`, but always the newest entry. Thread-safe."""

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.max_entries, self.max_bytes = max_entries, max_bytes
        self.entries: OrderedDict[str, T] = OrderedDict()
        self.lock, self.count = Lock(), 0

    def get(self, id: str) -> T:
        """The entry of this id; refused with 404 if it was dropped."""
        with self.lock:
            if id not in self.entries:
                raise Refused(404, "this run is no longer in memory: run the text again")
            self.entries.move_to_end(id)
            return self.entries[id]

    def same(self, request: Any) -> T | None:
        """The entry that answers an equal request, if there is one."""
        with self.lock:
            return next((each for each in self.entries.values() if each.request == request), None)

    def next_number(self) -> int:
        """A new number, for the id of a new entry."""
        with self.lock:
            self.count += 1
            return self.count

    def put(self, entry: T) -> T:
        """Add an entry and drop the least recently used ones; returns the entry."""
        with self.lock:
            self.entries[entry.id] = entry
            while len(self.entries) > 1 and (
                len(self.entries) > self.max_entries
                or sum(each.bytes for each in self.entries.values()) > self.max_bytes
            ):
                self.entries.popitem(last=False)
        return entry
