"""Stateless random numbers: each one is a hash of its keys.

A generator's output depends on how often it was called before. Here a number depends on its keys
alone (seed, epoch, position in the text), so packing, workers and restarts cannot change it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


def mix(*keys: Any) -> Hashes:
    """64 well-mixed bits for each combination of keys (numbers or arrays that broadcast).

    The mixing function is splitmix64's: multiply, shift, xor.
    """
    with np.errstate(over="ignore"):
        bits: Any = np.uint64(0x9E3779B97F4A7C15)
        for key in keys:
            bits = bits ^ np.asarray(key).astype(np.uint64)
            bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            bits = (bits ^ (bits >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(bits)


def uniform(*keys: Any) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each combination of keys."""
    numbers: npt.NDArray[np.float64] = (mix(*keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return numbers


def below(limit: Any, *keys: Any) -> npt.NDArray[np.int64]:
    """An integer in [0, limit) for each combination of keys."""
    numbers: npt.NDArray[np.int64] = (uniform(*keys) * np.asarray(limit)).astype(np.int64)
    return numbers


def shuffled(count: int, *keys: Any) -> npt.NDArray[np.int64]:
    """A permutation of 0 … count - 1 that depends on the keys."""
    return np.argsort(mix(*keys, np.arange(count)), kind="stable").astype(np.int64)
