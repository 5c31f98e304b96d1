"""Probing: can a linear classifier read a property from a model's vectors?

A probe that is large enough can also learn labels by heart. The control task (Hewitt and Liang
2019, "Designing and interpreting probes with control tasks") gives each word type a random label,
with the frequencies of the true ones; selectivity is the accuracy minus the accuracy on that task.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError, InputError
from glassformer.interpret.files import load_tensors, save_tensors

FORMAT = "glassformer-probe-1"


@dataclass(frozen=True, eq=False)
class Probe:
    """A linear classifier of vectors."""

    weight: Tensor  # (labels, C)
    bias: Tensor  # (labels,)
    labels: list[str]
    accuracy: float  # on vectors that it was not fitted to
    control_accuracy: float  # of a probe of random labels
    tensor: str | None = None  # whose rows it reads: the name in a trace

    @property
    def selectivity(self) -> float:
        return self.accuracy - self.control_accuracy

    def predict(self, vectors: Tensor) -> list[str]:
        """The likeliest label of each vector, (N, C)."""
        best = (vectors.to(self.weight) @ self.weight.T + self.bias).argmax(-1)
        return [self.labels[i] for i in best.tolist()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file."""
        about = {
            "labels": self.labels, "accuracy": self.accuracy,
            "control_accuracy": self.control_accuracy, "tensor": self.tensor,
        }  # fmt: skip
        save_tensors(path, FORMAT, {"weight": self.weight, "bias": self.bias}, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Probe:
        """Read a file that `save` wrote."""
        tensors, about = load_tensors(path, FORMAT, {"weight": 2, "bias": 1})
        labels: Any = about.get("labels")
        numbers: list[Any] = [about.get("accuracy"), about.get("control_accuracy")]
        right = isinstance(labels, list) and len(labels) == len(tensors["bias"])
        if not right or not all(isinstance(number, float) for number in numbers):
            raise InputError(f"{path}: its labels do not fit its weights: save the probe again")
        tensor: Any = about.get("tensor")
        if not isinstance(tensor, str | None):
            raise InputError(f"{path}: tensor = {tensor!r}: not a name in a trace")
        return cls(tensors["weight"], tensors["bias"], labels, numbers[0], numbers[1], tensor)


def fit_probe(
    vectors: Tensor, labels: Sequence[str], words: Sequence[str], *, valid_fraction: float = 0.3,
    weight_decay: float = 1e-2, seed: int = 0, tensor: str | None = None,
) -> Probe:  # fmt: skip
    """Fit a linear probe and its control.

    Args:
        vectors: (N, C), such as rows of a trace
        labels: of each vector
        words: of each vector: the control task gives equal words equal labels
        valid_fraction: of the vectors that the accuracy is measured on
        weight_decay: of the weights, as a share of the mean loss
        seed: of the split and of the control task
        tensor: the name in a trace of the tensor whose rows they are, to be saved with the probe
    """
    if not len(vectors) == len(labels) == len(words):
        counts = f"{len(vectors)}, {len(labels)} and {len(words)}"
        raise InputError(f"{counts} vectors, labels and words: give as many of each")
    names = sorted(set(labels))
    if len(names) < 2:
        kinds = f"all labels are {names[0]!r}" if names else "there are no labels"
        raise InputError(f"{kinds}: give vectors of two labels at least")
    if not 0 < valid_fraction < 1:
        raise ConfigError(f"valid_fraction = {valid_fraction}: write a number between 0 and 1")
    draw = random.Random(seed)  # noqa: S311 - not a secret
    order = list(range(len(labels)))
    draw.shuffle(order)
    held = round(len(order) * valid_fraction)
    if not 0 < held < len(order) - 1:  # one vector alone has no standard deviation
        raise InputError(f"{len(order)} vectors are too few to fit and to measure: give more")
    valid, train = torch.tensor(order[:held]), torch.tensor(order[held:])
    true = torch.tensor([names.index(label) for label in labels])
    by_word = {word: draw.choice(labels) for word in sorted(set(words))}
    control = torch.tensor([names.index(by_word[word]) for word in words])
    x = vectors.detach().float().cpu()
    fits = [_fit(x, goal, len(names), train, valid, weight_decay) for goal in (true, control)]
    (weight, bias, accuracy), (_, _, control_accuracy) = fits
    return Probe(weight, bias, names, accuracy, control_accuracy, tensor)


@torch.enable_grad()
def _fit(
    x: Tensor, labels: Tensor, count: int, train: Tensor, valid: Tensor, decay: float
) -> tuple[Tensor, Tensor, float]:
    """Logistic regression by L-BFGS on standardised vectors; the accuracy on `valid`."""
    mean, scale = x[train].mean(0), x[train].std(0).clamp(min=1e-6)
    weight = torch.zeros(count, x.shape[1], requires_grad=True)
    bias = torch.zeros(count, requires_grad=True)
    rows = (x - mean) / scale
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        error = F.cross_entropy(rows[train] @ weight.T + bias, labels[train])
        error = error + decay * weight.square().mean() * weight.shape[1]
        error.backward()
        return error

    optimizer.step(loss)
    with torch.no_grad():
        best = (rows[valid] @ weight.T + bias).argmax(-1)
        accuracy = float((best == labels[valid]).float().mean())
        plain = weight / scale  # for vectors that are not standardised
        return plain, bias - plain @ mean, accuracy
