"""What changes when heads are taken out: the surest sign of what they did.

Michel et al. 2019, "Are sixteen heads really better than one?". Zero is a value the model never
met there; the mean keeps what a head always says, and takes out what it says about this text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from glassformer.errors import InputError
from glassformer.glass.recorder import Edit, Instead, ablate
from glassformer.glass.stacks import place, stream
from glassformer.glass.trace import Trace
from glassformer.precision import widen

Head = tuple[str, int, int]  # stack, layer, head


@dataclass(frozen=True, eq=False)
class Effect:
    """The same text before and after."""

    before: Trace
    after: Trace

    @property
    def kl(self) -> Tensor:
        """Σ p ln(p / q) of the answers before (p) and after (q), one number a row of logits."""
        if "logits" not in self.before:
            raise InputError("this model has no head to say something: look at effect.cosine(…)")
        p, q = (widen(each["logits"]).log_softmax(-1) for each in (self.before, self.after))
        return F.kl_div(q, p, reduction="none", log_target=True).sum(-1)

    @property
    def changed(self) -> list[int]:
        """Where another answer is the best one now."""
        before, after = (each["logits"].argmax(-1) for each in (self.before, self.after))
        return [int(i) for i in (before != after).nonzero().flatten()]

    def cosine(self, stack: str) -> Tensor:  # (T,)
        """How alike the last vectors of a stack are before and after."""
        before, after = (
            list(stream(each, stack).values())[-1] for each in (self.before, self.after)
        )
        return F.cosine_similarity(before, after, dim=-1)


def effect(look: Callable[..., Trace], heads: Iterable[Head], *, by: Instead = "zero") -> Effect:
    """Run without these heads, and compare.

    effect(partial(gf.record, model, "The cat sat on the mat"), [("encoder", 3, 1)])
    """
    before = look()
    return Effect(before, look(edit=heads_off(before, heads, by=by)))


def heads_off(trace: Trace, heads: Iterable[Head], *, by: Instead = "zero") -> Edit:
    """For `edit`: takes these heads out, `by` zero or their mean over the text's tokens."""
    out: dict[str, list[int]] = {}
    for stack, layer, head in heads:
        out.setdefault(f"{place(trace, stack, layer, head)}.mixed", []).append(head)
    return {name: ablate(*each, by=by) for name, each in out.items()}
