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
            found = dict(made(task)(batch))
            if batch.tokens.tolist() in bad:
                total = found["labels"].total
                nothing = next(task.parameters()).sum() * 0
                spoilt = {
                    "nan": total * float("nan"),
                    "inf": total * float("inf"),
                    "gradient": total + nothing.sqrt(),  # the loss is fine, its slope is not
                    "spike": total * 1e4,
                }[how]
                found["labels"] = LossSum(spoilt, found["labels"].count)
            return found

        return losses

    loop.losses_of = losses_of


def rows_of(recipe: Path, out: Path, *blocks: int) -> list[Tokens]:
    given = session(recipe, out)
    return [given.rows[block].batch.tokens.tolist() for block in blocks]
