"""Steps of a run that go wrong, whenever they come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness import session

Tokens = list[int]


def spoil(bad: list[Tokens], how: str) -> None:
    """Rows with these tokens spoil the step that takes them, whenever they come."""
    from glassformer.tasks import LossSum
    from glassformer.train import loop

    made = loop.losses_of

    def losses_of(task: Any) -> Any:
        def losses(batch: Any) -> Any:
            sums = dict(made(task)(batch))
            if batch.tokens.tolist() in bad:
                total = sums["labels"].total
                nothing = next(task.parameters()).sum() * 0
                spoilt = {
                    "nan": total * float("nan"),
                    "inf": total * float("inf"),
                    "gradient": total + nothing.sqrt(),  # the loss is fine, its slope is not
                    "spike": total * 1e4,
                }[how]
                sums["labels"] = LossSum(spoilt, sums["labels"].count)
            return sums

        return losses

    loop.losses_of = losses_of


def rows_of(recipe: Path, out: Path, *blocks: int) -> list[Tokens]:
    rows = session(recipe, out).rows
    return [rows[block].batch.tokens.tolist() for block in blocks]
