"""Cross attention, read as an alignment: which token (or word) came from which.

A decoder looks at the source twice because of a token: when it is about to write it, and one step
later, when it has just read it (Garg et al. 2019, "Jointly learning to align and translate"; Chen
et al. 2020, "Accurate word alignment induction from neural machine translation").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from glassformer.data.readers.alignments import Link
from glassformer.errors import ConfigError
from glassformer.glass.stacks import weights
from glassformer.glass.trace import Trace
from glassformer.precision import widen


@dataclass(frozen=True, eq=False)
class Alignment:
    source: list[str]  # words
    target: list[str]
    weights: Tensor  # (target words, source words): how much each looked at each

    def links(self, *, mutual: bool = False) -> list[Link]:
        """(source, target) of each target word and the source word it looked at most.

        `mutual` keeps those that are also the largest of their source word: fewer and surer.
        """
        if not self.source or not self.target:
            return []
        best = self.weights.argmax(1).tolist()  # of each target word
        back = self.weights.argmax(0).tolist()  # of each source word
        return sorted(
            (i, j)
            for j, i in enumerate(best)
            if self.weights[j, i] > 0 and (not mutual or back[i] == j)
        )

    def pharaoh(self) -> str:
        """The links as tools of translation write them: 0-0 1-2."""
        return " ".join(f"{i}-{j}" for i, j in self.links())


def usual_layers(depth: int) -> range:
    return range(depth // 2, depth)


def looks(cross: Tensor, *, reading: bool = False) -> Tensor:  # (…, T, S) → (T - 1, S)
    """How much each token behind the start token looked at the source: the mean of all heads.

    The look before it was written, or (`reading`) the one after it was read.
    """
    mean = widen(cross).flatten(0, -3).mean(0).cpu()
    return mean[1:] if reading else mean[:-1]


def align_tokens(
    trace: Trace, *, layers: Sequence[int] | None = None, reading: bool = False
) -> Alignment:
    """Of a recorded translation, token by token; `layers` None is the upper half."""
    found = weights(trace, "cross")
    chosen = list(usual_layers(len(found)) if layers is None else layers)
    if not chosen or not all(0 <= layer < len(found) for layer in chosen):
        raise ConfigError(f"layers = {chosen}: the decoder has layers 0 to {len(found) - 1}")
    return Alignment(trace.source_tokens, trace.tokens[1:], looks(found[chosen], reading=reading))
