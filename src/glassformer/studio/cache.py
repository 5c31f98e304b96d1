"""What was computed is kept for a while: the newest, and only those."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from glassformer.studio.guard import Refused


class Kept(Protocol):
    """Something with a name, that was asked for in some words, and takes so much room."""

    @property
    def id(self) -> str: ...

    @property
    def ask(self) -> Any: ...

    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=Kept)


class Shelf(Generic[T]):
    """The last ones asked for. Safe to use from several threads."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.kept: OrderedDict[str, T] = OrderedDict()
        self.lock, self.count = Lock(), 0

    def find(self, id: str) -> T:
        with self.lock:
            if id not in self.kept:
                raise Refused(404, "this run is not kept any more: run the text again")
            self.kept.move_to_end(id)
            return self.kept[id]

    def same(self, ask: Any) -> T | None:
        """What was asked for in the same words."""
        with self.lock:
            return next((each for each in self.kept.values() if each.ask == ask), None)

    def number(self) -> int:
        """For the name of a new one."""
        with self.lock:
            self.count += 1
            return self.count

    def keep(self, made: T) -> T:
        with self.lock:
            self.kept[made.id] = made
            while len(self.kept) > 1 and (
                len(self.kept) > self.most
                or sum(each.bytes for each in self.kept.values()) > self.most_bytes
            ):
                self.kept.popitem(last=False)
        return made
