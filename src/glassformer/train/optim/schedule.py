"""How the learning rate moves: a share of its peak for each step."""

from __future__ import annotations

import math


def share(kind: str, step: int, *, steps: int, warmup: float, decay: float, final: float) -> float:
    """Up over `warmup` steps, then as the schedule says; `step` counts from 0.

    A `warmup` below 1 is a share of all steps.

    constant ▁▇▇▇▇▇   linear ▁▇▆▄▃▁   cosine ▁▇▇▅▂▁   wsd ▁▇▇▇▇▂   inverse_sqrt ▁▇▅▄▃▃
    """
    warmup = round(warmup * steps) if warmup < 1 else warmup
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - 1 - warmup)  # 0 … 1 at the last step
    done = min(1.0, done)
    match kind:
        case "linear":
            down = 1 - done
        case "cosine":
            down = (1 + math.cos(math.pi * done)) / 2
        case "wsd":
            down = 1.0 if decay == 0 else min(1.0, (1 - done) / decay)
        case "inverse_sqrt":
            return math.sqrt(max(1, warmup) / max(1, step + 1))
        case _:
            return 1.0
    return final + (1 - final) * down
