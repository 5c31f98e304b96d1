"""One queue a model: bounded in tokens, and fair between clients."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from threading import Condition

from glassformer.asgi.requests import Refused
from glassformer.serve.work import Lane, Unit, Work


class FairQueue:
    """Units of work that wait, in lanes. In each lane the clients take turns, a unit each.

    A request joins whole or not at all. One client may fill half of the queue, so that another one
    still finds room in it. `changed` is notified when something joins.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound  # tokens
        self.changed = Condition()
        self.tokens = 0
        self.by_client: dict[str, int] = {}
        self.lanes: dict[Lane, OrderedDict[str, deque[Unit]]] = {}

    def __len__(self) -> int:
        with self.changed:
            return sum(1 for _ in self._units())

    def full(self, client: str) -> bool:
        """Whether not even the smallest request of this client fits."""
        return self.tokens >= self.bound or self.by_client.get(client, 0) >= self.bound // 2

    def put(self, work: Work) -> bool:
        """Whether the request has joined; it is refused for good if it is larger than the queue."""
        need = work.tokens
        if need > self.bound:
            line = f"the request has {need:,} tokens and the queue holds {self.bound:,}: divide it"
            raise Refused(413, line)
        with self.changed:
            own = self.by_client.get(work.client, 0)
            if self.tokens + need > self.bound or (own and own + need > self.bound // 2):
                return False
            clients = self.lanes.setdefault(work.lane, OrderedDict())
            clients.setdefault(work.client, deque()).extend(work.units)
            self._count(work.client, need)
            self.changed.notify()
        return True

    def take(self, lane: Lane) -> Unit | None:
        """The next unit, of the client that has waited longest for its turn."""
        with self.changed:
            clients = self.lanes.get(lane)
            if not clients:
                return None
            client, units = next(iter(clients.items()))
            unit = units.popleft()
            del clients[client]
            if units:
                clients[client] = units  # behind the others
            self._count(client, -unit.tokens)
            return unit

    def drop(self) -> list[Work]:
        """Remove the units of requests that have ended or are late; returns the late ones."""
        late: dict[Work, None] = {}
        with self.changed:
            for clients in self.lanes.values():
                for client in list(clients):
                    kept = deque(u for u in clients[client] if not (u.work.ended or u.work.late))
                    for unit in clients[client]:
                        if unit.work.ended or unit.work.late:
                            self._count(client, -unit.tokens)
                            if not unit.work.ended:
                                late[unit.work] = None
                    if kept:
                        clients[client] = kept
                    else:
                        del clients[client]
        return list(late)

    def _units(self) -> Iterator[Unit]:
        for clients in self.lanes.values():
            for units in clients.values():
                yield from units

    def _count(self, client: str, tokens: int) -> None:
        self.tokens += tokens
        own = self.by_client.get(client, 0) + tokens
        if own:
            self.by_client[client] = own
        else:
            self.by_client.pop(client, None)
