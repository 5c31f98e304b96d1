"""How good it is: sums over a whole data set, kept as sums."""

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

NAMES = ("next_sentence_labels", "labels")  # what a batch may ask for


@torch.no_grad()
def loss_metrics(
    task: Task,
    rows: PackedRows,
    world: DistributedContext,
    call: Callable[[Batch], Output] | None = None,
) -> dict[str, float]:
    """Loss and accuracy over all rows of the data, each token counted once.

    Of labelled data the loss alone: how good the answers are, `metrics` says.
    """
    was = task.training
    task.eval()
    plan = rows.plan(0)
    found: dict[str, list[Tensor]] = {name: [torch.zeros(3)] for name in NAMES}
    words = task.spec.traits.predicts_tokens
    for row in rows.stream(range(world.rank, len(plan), world.size), workers=1):
        batch = row.batch.to(world.device)
        output = (task if call is None else call)(batch)
        for name, each in output.losses.items():
            right = torch.zeros_like(each.count)
            if words:
                logits = (
                    output.next_sentence_logits if name == "next_sentence_labels" else output.logits
                )
                assert logits is not None  # noqa: S101
                right = (logits.argmax(-1) == getattr(batch, name)).sum()
            found[name].append(torch.stack([each.total, each.count, right]))
    task.train(was)
    figures: dict[str, float] = {"loss": 0.0}
    for name, parts in found.items():  # a process without rows is asked, too
        sums = torch.stack([part.cpu() for part in parts]).double().sum(0)
        loss, count, hits = world.sum(sums).tolist()
        if count == 0:
            continue
        mean = loss / count
        figures["loss"] += mean
        if not words:
            figures["answers"] = count
            continue
        prefix = "" if name == "labels" else "next_sentence_"
        figures[f"{prefix}accuracy"] = hits / count
        if name == "labels":
            figures |= {"perplexity": perplexity(mean), "answers": count}
        else:
            figures[f"{prefix}loss"] = mean
    return figures


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700.0))


@torch.no_grad()
def by_document(task: Task, rows: PackedRows, world: DistributedContext) -> npt.NDArray[np.float64]:
    """(documents, 2) of next words: the sum of their losses, and how many they are."""
    task.eval()
    plan, offsets = rows.plan(0), rows.dataset.store["tokens"].offsets
    found = np.zeros((len(offsets) - 1, 2))
    for number in range(len(plan)):
        starts = plan.row(number).first[:, 0]
        batch = rows[number].batch.to(world.device)
        assert batch.labels is not None  # noqa: S101
        nats = F.cross_entropy(task(batch).logits.float(), batch.labels, reduction="none")
        texts = nats.cpu().double().split(batch.sequences.lengths)
        document = np.searchsorted(offsets, starts, "right") - 1
        sums = [[float(text.sum()), len(text)] for text in texts]
        np.add.at(found, document, np.array(sums))
    return found
