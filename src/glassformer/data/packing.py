"""Which texts stand in which row: the plan of an epoch.

    documents   ████████████████  ███  ██████████        windows of at most L tokens
    samples     ██████ ██████ ███ ███  ██████ ████       (the first one shorter, by chance)
    rows        │████ ██████ ███ ███│██████ ██████ ░│    shuffled, laid end to end, N tokens a row

A plan is a function of (data, seed, epoch). It is stored, so that row i is found without making the
ones before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from glassformer.data.hashing import below, shuffled
from glassformer.durable import write_whole
from glassformer.errors import ConfigError, InputError

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Samples:
    """Spans of a column's long row: (S, 2) start and length; a pair of texts has two."""

    first: Numbers
    second: Numbers | None = None
    follows: Numbers | None = None  # (S,) 0 if the second text follows the first, else 1

    def __len__(self) -> int:
        return len(self.first)

    def take(self, which: Any) -> Samples:
        second = None if self.second is None else self.second[which]
        follows = None if self.follows is None else self.follows[which]
        return Samples(self.first[which], second, follows)


def windows(
    offsets: Numbers, length: int, *, overlap: int, seed: int, epoch: int, without: int = 0
) -> Samples:
    """Cut documents into spans of at most `length`; neighbours share `overlap` tokens.

    The last `without` tokens of each document are left out.
    A long document's first window has a chance length, another one in every epoch, so that a token
    does not always stand at the same place. Epoch 0 of seed -1 (evaluation) cuts from the start.
    """
    if length <= overlap:
        raise ConfigError("objective.length: too short for a single token: write a longer one")
    starts, sizes = offsets[:-1], np.diff(offsets) - without - overlap  # what must be covered
    step = length - overlap
    long = sizes > step
    first = np.where(long, below(step, seed, epoch, starts) + 1, sizes)
    first = np.where(long & (seed < 0), step, first)
    counts = np.where(sizes > 0, 1 + np.maximum(0, -(-(sizes - first) // step)), 0)
    document = np.repeat(np.arange(len(sizes)), counts)
    number = np.arange(len(document)) - np.repeat(counts.cumsum() - counts, counts)
    begin = np.where(number == 0, 0, first[document] + (number - 1) * step)
    end = np.minimum(first[document] + number * step, sizes[document])
    return Samples(np.stack([starts[document] + begin, end - begin + overlap], 1))


def fill_rows(costs: Numbers, budget: int, most: int) -> Numbers:
    """Consecutive samples, as many as fit: where each row begins, and where the last ends.

    `costs` is (S,) or (S, 2): each of its columns has the same budget. A row holds at most `most`.
    """
    costs = costs if costs.ndim == 2 else costs[:, None]
    if len(costs) and costs.max() > budget:
        raise InputError(
            f"a text of {costs.max():,} tokens does not fit into a row of {budget:,}: "
            "raise train.micro_batch_tokens or lower objective.length"
        )
    sums = np.concatenate([np.zeros((1, costs.shape[1]), np.int64), costs.cumsum(0)])
    begins = [0]
    while begins[-1] < len(costs):
        at = begins[-1]
        ends = [int(np.searchsorted(each, each[at] + budget, "right")) - 1 for each in sums.T]
        begins.append(min([*ends, at + most]))
    return np.array(begins, dtype=np.int64)


@dataclass(frozen=True)
class Plan:
    """One epoch: the samples in their order, and where each row begins."""

    samples: Samples
    begins: Numbers

    def __len__(self) -> int:
        return len(self.begins) - 1

    def row(self, index: int) -> Samples:
        return self.samples.take(slice(int(self.begins[index]), int(self.begins[index + 1])))


def make_plan(
    samples: Samples, costs: Numbers, *, budget: int, most: int, seed: int, epoch: int
) -> Plan:
    """Shuffled (unless seed is negative) and laid out in rows."""
    if seed >= 0:
        order = shuffled(len(samples), seed, epoch)
        samples, costs = samples.take(order), costs[order]
    return Plan(samples, fill_rows(costs, budget, most))


def store_plan(plan: Plan, path: Path, key: str) -> None:
    """A plan is whole or absent."""
    parts = {
        "first": plan.samples.first,
        "second": plan.samples.second,
        "follows": plan.samples.follows,
        "begins": plan.begins,
    }
    found = {name: np.ascontiguousarray(each) for name, each in parts.items() if each is not None}
    write_whole(path, save(found, {"key": key}))


def stored_plan(path: Path, key: str) -> Plan | None:
    """None if it is not there, broken, or of other settings: then it is made again."""
    try:
        with safe_open(path, "np") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        samples = Samples(found["first"], found.get("second"), found.get("follows"))
        return Plan(samples, found["begins"])
    except (OSError, SafetensorError, KeyError):
        return None


def key_of(*parts: Any) -> str:
    """Settings that make another plan have another key."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
