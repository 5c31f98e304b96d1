"""Cross attention, read as an alignment: which token (or word) came from which.

A decoder attends to the source twice because of a token: when it is about to write it, and one step
later, when it has just read it (Garg et al. 2019, "Jointly learning to align and translate"; Chen
et al. 2020, "Accurate word alignment induction from neural machine translation").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from glassformer.data.readers.alignments import Link
from glassformer.errors import ConfigError
from glassformer.glass.recorded import RecordedTensors
from glassformer.glass.stacks import weights
from glassformer.precision import widen


@dataclass(frozen=True, eq=False)
class Alignment:
    source: list[str]  # words
    target: list[str]
    weights: Tensor  # (target words, source words): attention from row to column

    def links(self, *, mutual: bool = False) -> list[Link]:
        """(source, target) of each target word and the source word with its largest weight.

        `mutual` keeps the links that are also the largest of their source word: fewer, but surer.
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
        """The links in the Pharaoh format of translation tools: 0-0 1-2."""
        return " ".join(f"{i}-{j}" for i, j in self.links())


def usual_layers(depth: int) -> range:
    """The upper half of a decoder of `depth` blocks."""
    return range(depth // 2, depth)


def source_weights(cross: Tensor, *, reading: bool = False) -> Tensor:  # (…, T, S) → (T - 1, S)
    """The cross attention of each token after the start token, as the mean of all heads.

    The attention of the step that wrote the token or, with `reading`, of the one that read it.
    """
    mean = widen(cross).flatten(0, -3).mean(0).cpu()
    return mean[1:] if reading else mean[:-1]


def align_tokens(
    trace: RecordedTensors, *, layers: Sequence[int] | None = None, reading: bool = False
) -> Alignment:
    """Align a recorded translation, token by token.

    Args:
        layers: of the decoder; the upper half, if not given
        reading: take the attention of the step that read a token, not of the step that wrote it
    """
    cross = weights(trace, "cross")
    chosen = list(usual_layers(len(cross)) if layers is None else layers)
    if not chosen or not all(0 <= layer < len(cross) for layer in chosen):
        raise ConfigError(f"layers = {chosen}: the decoder has layers 0 to {len(cross) - 1}")
    return Alignment(
        trace.source_tokens, trace.tokens[1:], source_weights(cross[chosen], reading=reading)
    )
