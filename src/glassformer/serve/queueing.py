"""One queue a model: bounded in tokens, and fair between clients."""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from threading import Condition

from glassformer.asgi.requests import Refused
from glassformer.serve.work import Lane, Unit, Work

Groups = OrderedDict[Hashable, deque[Unit]]  # units that may share a batch
ANY = object()  # any group


class FairQueue:
    """Units of work that wait, in lanes. In each lane the clients take turns, a unit each.

    A request joins whole or not at all. While other clients wait, one client may fill half of the
    queue, so that there is room for them. `changed` is notified when something joins.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound  # tokens
        self.changed = Condition()
        self.tokens = 0
        self.by_client: dict[str, int] = {}
        self.lanes: dict[Lane, OrderedDict[str, Groups]] = {}

    def __len__(self) -> int:
        with self.changed:
            return sum(1 for _ in self._units())

    def full(self, client: str) -> bool:
        """Whether not even the smallest request of this client fits."""
        own = self.by_client.get(client, 0)
        return self.tokens >= self.bound or own >= self._share(client)

    def put(self, work: Work) -> bool:
        """Whether the request has joined; it is refused for good if it is larger than the queue."""
        need = work.tokens
        if need > self.bound:
            line = f"the request has {need:,} tokens and the queue holds {self.bound:,}: divide it"
            raise Refused(413, line)
        with self.changed:
            own = self.by_client.get(work.client, 0)
            if self.tokens + need > self.bound or (own and own + need > self._share(work.client)):
                return False
            groups = self.lanes.setdefault(work.lane, OrderedDict()).setdefault(
                work.client, OrderedDict()
            )
            groups.setdefault(work.group, deque()).extend(work.units)
            self._count(work.client, need)
            self.changed.notify()
        return True

    def take(
        self, lane: Lane, units: int, size: float = math.inf, *, group: Hashable = ANY
    ) -> list[Unit]:
        """Units for one batch: those of one group, from all clients by turns.

        Args:
            units: the most units
            size: no more units are added to a batch of this size; see `Unit.size`
            group: none are taken while it is the turn of another group
        """
        batch: list[Unit] = []
        with self.changed:
            clients = self.lanes.get(lane)
            if not clients:
                return batch
            next_group = next(iter(next(iter(clients.values()))))  # of the client whose turn it is
            if group is not ANY and group != next_group:
                return batch
            group = next_group
            turns = deque(client for client, groups in clients.items() if group in groups)
            while turns and len(batch) < units and size > 0:
                client = turns.popleft()
                groups = clients[client]
                unit = groups[group].popleft()
                batch.append(unit)
                size -= unit.size
                self._count(client, -unit.tokens)
                clients.move_to_end(client)
                if groups[group]:
                    groups.move_to_end(group)
                    turns.append(client)
                else:
                    self._forget(clients, client, group)
        return batch

    def drop(self) -> list[Work]:
        """Remove and return the requests that have ended or are late."""
        over: dict[Work, bool] = {}  # each is judged once: it may end at any moment
        with self.changed:
            for clients in self.lanes.values():
                for client, groups in list(clients.items()):
                    for group, units in list(groups.items()):
                        kept: deque[Unit] = deque()
                        for unit in units:
                            if unit.work not in over:
                                over[unit.work] = unit.work.over
                            if over[unit.work]:
                                self._count(client, -unit.tokens)
                            else:
                                kept.append(unit)
                        groups[group] = kept
                        if not kept:
                            self._forget(clients, client, group)
        return [work for work, is_over in over.items() if is_over]

    @staticmethod
    def _forget(clients: OrderedDict[str, Groups], client: str, group: Hashable) -> None:
        """Remove a group that is empty."""
        del clients[client][group]
        if not clients[client]:
            del clients[client]

    def _share(self, client: str) -> int:
        """The most tokens of this client."""
        others = len(self.by_client) > (client in self.by_client)
        return max(1, self.bound // 2) if others else self.bound

    def _units(self) -> Iterator[Unit]:
        for clients in self.lanes.values():
            for groups in clients.values():
                for units in groups.values():
                    yield from units

    def _count(self, client: str, tokens: int) -> None:
        self.tokens += tokens
        own = self.by_client.get(client, 0) + tokens
        if own:
            self.by_client[client] = own
        else:
            self.by_client.pop(client, None)
