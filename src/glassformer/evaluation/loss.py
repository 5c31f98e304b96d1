"""Loss and accuracy over a dataset, accumulated as sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.data.batches import PackedRows
from glassformer.distributed import DistributedContext
from glassformer.model import Batch
from glassformer.tasks import Output, Task

NAMES = ("next_sentence_labels", "labels")  # the labels that a batch may have


@torch.no_grad()
def loss_metrics(
    task: Task,
    rows: PackedRows,
    world: DistributedContext,
    call: Callable[[Batch], Output] | None = None,
) -> dict[str, float]:
    """Loss and accuracy over all rows of the data, each token counted once.

    For labelled data only the loss; `metrics` computes the others.
    """
    was_training = task.training
    task.eval()
    plan = rows.plan(0)
    batch_sums: dict[str, list[Tensor]] = {name: [torch.zeros(3)] for name in NAMES}
    predicts_tokens = task.spec.traits.predicts_tokens
    own = range(world.rank, len(plan), world.size)
    # With sharded weights a forward pass needs all processes: one without a row repeats the first.
    repeated = [0] * (-(-len(plan) // world.size) - len(own))
    for number, row in enumerate(rows.stream([*own, *repeated], workers=1)):
        batch = row.batch.to(world.device)
        output = (task if call is None else call)(batch)
        if number >= len(own):
            continue
        for name, each in output.losses.items():
            correct = torch.zeros_like(each.count)
            if predicts_tokens:
                logits = (
                    output.next_sentence_logits if name == "next_sentence_labels" else output.logits
                )
                assert logits is not None  # noqa: S101
                correct = (logits.argmax(-1) == getattr(batch, name)).sum()
            batch_sums[name].append(torch.stack([each.total, each.count, correct]))
    task.train(was_training)
    metrics: dict[str, float] = {"loss": 0.0}
    for name, parts in batch_sums.items():  # also in a process without rows: sum is collective
        sums = torch.stack([part.cpu() for part in parts]).double().sum(0)
        loss, count, hits = world.sum(sums).tolist()
        if count == 0:
            continue
        mean = loss / count
        metrics["loss"] += mean
        if not predicts_tokens:
            metrics["answers"] = count
            continue
        prefix = "" if name == "labels" else "next_sentence_"
        metrics[f"{prefix}accuracy"] = hits / count
        if name == "labels":
            metrics |= {"perplexity": perplexity(mean), "answers": count}
        else:
            metrics[f"{prefix}loss"] = mean
    return metrics


def perplexity(loss: float) -> float:
    """e to the mean loss; the exponent is capped, so that it stays finite."""
    return math.exp(min(loss, 700.0))


@torch.no_grad()
def by_document(task: Task, rows: PackedRows, world: DistributedContext) -> npt.NDArray[np.float64]:
    """For causal_lm: the sum of each document's token losses and their number, (documents, 2)."""
    task.eval()
    plan, offsets = rows.plan(0), rows.dataset.store["tokens"].offsets
    totals = np.zeros((len(offsets) - 1, 2))
    for number in range(len(plan)):
        starts = plan.row(number).first[:, 0]
        batch = rows[number].batch.to(world.device)
        assert batch.labels is not None  # noqa: S101
        nats = F.cross_entropy(task(batch).logits.float(), batch.labels, reduction="none")
        texts = nats.cpu().double().split(batch.sequences.lengths)
        document = np.searchsorted(offsets, starts, "right") - 1
        sums = [[float(text.sum()), len(text)] for text in texts]
        np.add.at(totals, document, np.array(sums))
    return totals
