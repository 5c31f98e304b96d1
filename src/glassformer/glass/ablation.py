"""Ablation: what changes when heads or units are removed shows what they did.

Michel et al. 2019, "Are sixteen heads really better than one?". Zero is a value that the model
never met in training; the mean keeps what a head always adds, and removes what depends on the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import ConfigError, InputError
from glassformer.glass.recorder import Edit, Replacement, ablate
from glassformer.glass.stacks import place, stream
from glassformer.glass.trace import Trace
from glassformer.precision import widen

Head = tuple[str, int, int]  # stack, layer, head
Unit = tuple[str, int, int]  # stack, layer, unit


@dataclass(frozen=True, eq=False)
class Effect:
    """Traces of the same text before and after heads were removed."""

    before: Trace
    after: Trace

    @property
    def kl(self) -> Tensor:
        """Σ p ln(p / q) of the predictions before (p) and after (q), one number a row of logits."""
        if "logits" not in self.before:
            raise InputError(
                "kl: this model has no logits: compare its vectors with effect.cosine(…)"
            )
        p, q = (widen(trace["logits"]).log_softmax(-1) for trace in (self.before, self.after))
        return F.kl_div(q, p, reduction="none", log_target=True).sum(-1)

    @property
    def changed(self) -> list[int]:
        """The rows of logits where another prediction is the best one now."""
        before, after = (trace["logits"].argmax(-1) for trace in (self.before, self.after))
        return [int(i) for i in (before != after).nonzero().flatten()]

    def cosine(self, stack: str) -> Tensor:  # (T,)
        """The cosine of the last vectors of a stack before and after."""
        before, after = (
            list(stream(trace, stack).values())[-1] for trace in (self.before, self.after)
        )
        return F.cosine_similarity(before, after, dim=-1)


def effect(
    record: Callable[..., Trace], heads: Iterable[Head], *, by: Replacement = "zero"
) -> Effect:
    """Record a text with and without these heads.

    Args:
        record: makes a trace, and takes `edit`
        heads: (stack, layer, head) of each head to remove
        by: what stands in their place: see `ablate`

    effect(partial(gf.record, model, "The cat sat on the mat"), [("encoder", 3, 1)])
    """
    before = record()
    return Effect(before, record(edit=heads_off(before, heads, by=by)))


def heads_off(trace: Trace, heads: Iterable[Head], *, by: Replacement = "zero") -> Edit:
    """For `edit`: removes these heads, replaced by zero or by their mean over the text's tokens."""
    removed: dict[str, list[int]] = {}
    for stack, layer, head in heads:
        removed.setdefault(f"{place(trace, stack, layer, head)}.mixed", []).append(head)
    return {name: ablate(*numbers, by=by) for name, numbers in removed.items()}


def units_off(units: Iterable[Unit]) -> Edit:
    """For `edit`: these units of MLPs are 0 at every token.

    Args:
        units: (stack, layer, unit) of each; a unit is an entry of act(W_1 x), or with a gate of
            act(W_g x) · W_1 x
    """
    removed: dict[str, list[int]] = {}
    for stack, layer, unit in units:
        removed.setdefault(f"{stack}.blocks.{layer}.mlp.hidden", []).append(unit)
    return {name: _zeroed(numbers) for name, numbers in removed.items()}


def _zeroed(units: list[int]) -> Callable[[Tensor], Tensor]:
    def change(hidden: Tensor) -> Tensor:  # (T, mlp_width)
        width = hidden.shape[-1]
        for unit in units:
            if not 0 <= unit < width:
                raise ConfigError(f"unit {unit}: this MLP has units 0 to {width - 1}")
        hidden[:, units] = 0
        return hidden

    return change
