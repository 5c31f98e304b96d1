"""Which texts are packed into which row: the plan of an epoch.

    documents   ████████████████  ███  ██████████        windows of at most L tokens
    samples     ██████ ██████ ███ ███  ██████ ████       (the first one of random length)
    rows        │████ ██████ ███ ███│██████ ██████ ░│    shuffled, laid end to end, N tokens a row

A plan is a function of (data, seed, epoch). It is stored, so that row i is read without
building the rows before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save

from glassformer.data.hashing import below, shuffled
from glassformer.durable import write_whole
from glassformer.errors import CheckpointError, ConfigError, InputError
from glassformer.tensor_files import open_tensors

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
        """The samples at an index, a slice or an array of indices."""
        second = None if self.second is None else self.second[which]
        follows = None if self.follows is None else self.follows[which]
        return Samples(self.first[which], second, follows)


def windows(
    offsets: Numbers, length: int, *, overlap: int, seed: int, epoch: int, without: int = 0
) -> Samples:
    """Cut documents into spans of at most `length`; neighbours share `overlap` tokens.

    The last `without` tokens of each document are skipped.
    A long document's first window has a random length, a new one in every epoch, so that a token
    does not always have the same position. Seed -1 (evaluation) cuts from the start.
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
    """Pack consecutive samples, as many as fit: where each row begins, and where the last ends.

    `costs` is (S,) or (S, 2): each column has the same budget of tokens. A row holds at most `most`
    samples.
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
        """The samples of one row."""
        return self.samples.take(slice(int(self.begins[index]), int(self.begins[index + 1])))


def make_plan(
    samples: Samples, costs: Numbers, *, budget: int, most: int, seed: int, epoch: int
) -> Plan:
    """The plan of an epoch: shuffled (unless the seed is negative) and packed into rows."""
    if seed >= 0:
        order = shuffled(len(samples), seed, epoch)
        samples, costs = samples.take(order), costs[order]
    return Plan(samples, fill_rows(costs, budget, most))


def store_plan(plan: Plan, path: Path, key: str) -> None:
    """Write a plan atomically, with the key of its settings."""
    parts = {
        "first": plan.samples.first,
        "second": plan.samples.second,
        "follows": plan.samples.follows,
        "begins": plan.begins,
    }
    arrays = {name: np.ascontiguousarray(each) for name, each in parts.items() if each is not None}
    # One entry: several would be written in any order.
    write_whole(path, save(arrays, {"key": f"{key} {_digest(arrays)}"}))


def stored_plan(path: Path, key: str) -> Plan | None:
    """A stored plan; None if it is missing, corrupt, or made from other settings."""
    try:
        with open_tensors(path, "np") as file:
            settings, _, digest = (file.metadata() or {}).get("key", "").partition(" ")
            if settings != key:
                return None
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest != _digest(arrays):
            return None
        samples = Samples(arrays["first"], arrays.get("second"), arrays.get("follows"))
        return Plan(samples, arrays["begins"])
    except (CheckpointError, KeyError, TypeError):  # TypeError: a dtype that numpy does not have
        return None


def _digest(arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].shape} {arrays[name].dtype} ".encode())
        digest.update(arrays[name])
    return digest.hexdigest()


def key_of(*parts: Any) -> str:
    """A hash of the settings that decide a plan."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
