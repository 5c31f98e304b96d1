"""Learning-rate schedules: the fraction of the peak rate at each step."""

from __future__ import annotations

import math


def share(kind: str, step: int, *, steps: int, warmup: float, decay: float, final: float) -> float:
    """The fraction at a step, counted from 0: up over `warmup` steps, then by the schedule `kind`.

    A `warmup` below 1 is a fraction of all steps. `decay` is the fraction of steps in which wsd
    decays, `final` the value at the last step.

    constant ▁▇▇▇▇▇   linear ▁▇▆▄▃▁   cosine ▁▇▇▅▂▁   wsd ▁▇▇▇▇▂   inverse_sqrt ▁▇▅▄▃▃
    """
    warmup = round(warmup * steps) if warmup < 1 else warmup
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - 1 - warmup)  # 0 … 1 at the last step
    progress = min(1.0, progress)
    match kind:
        case "linear":
            factor = 1 - progress
        case "cosine":
            factor = (1 + math.cos(math.pi * progress)) / 2
        case "wsd":
            factor = 1.0 if decay == 0 else min(1.0, (1 - progress) / decay)
        case "inverse_sqrt":
            return math.sqrt(max(1, warmup) / max(1, step + 1))
        case _:
            return 1.0
    return final + (1 - final) * factor
