"""How good it is: sums over a whole data set, kept as sums."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from glassformer.data.rows import Rows
from glassformer.model import Batch
from glassformer.tasks import Output, Task
from glassformer.train.distributed import World

NAMES = ("follows", "labels")  # what a batch may ask for


@torch.no_grad()
def evaluate(
    task: Task, rows: Rows, world: World, call: Callable[[Batch], Output] | None = None
) -> dict[str, float]:
    """Loss and accuracy over all rows of the data, each token counted once."""
    was = task.training
    task.eval()
    plan = rows.plan(0)
    found: dict[str, list[Tensor]] = {name: [torch.zeros(3)] for name in NAMES}
    for row in rows.stream(range(world.rank, len(plan), world.size), workers=1):
        batch = row.batch.to(world.device)
        output = (task if call is None else call)(batch)
        for name, each in output.losses.items():
            labels = getattr(batch, name)
            logits = output.follows if name == "follows" else output.logits
            assert logits is not None  # noqa: S101
            right = (logits.argmax(-1) == labels).sum()
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
        prefix = "" if name == "labels" else f"{name}_"
        figures[f"{prefix}accuracy"] = hits / count
        if name == "labels":
            figures |= {"perplexity": math.exp(min(mean, 700.0)), "answers": count}
        else:
            figures[f"{prefix}loss"] = mean
    return figures
