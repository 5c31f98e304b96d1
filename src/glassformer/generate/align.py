"""Which word came from which: cross attention, read as a word alignment.

A decoder looks at the source twice because of a word: when it is about to write it, and one step
later, when it has just read it. The first look is the surer one in small models, and the upper half
of the blocks shows it; in deep ones the second look in a middle block can be clearer (Chen et al.
2020, "Accurate word alignment induction from neural machine translation"). benchmarks/align.py
measures both.

    weights          the    cat    sat            hard: each word's largest weight
      кошка          0.2    0.7    0.1              кошка ─ cat
      сидела         0.0    0.2    0.8              сидела ─ sat
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.data.readers.alignments import Gold, Link
from glassformer.errors import InputError
from glassformer.glass import Edit, Recorder
from glassformer.glass.alignment import Alignment, source_weights, usual_layers
from glassformer.tasks import Task
from glassformer.text import Encoding, Tokenizer

Span = tuple[int, int]
CLOSE = frozenset(".,")  # marks that stand close to the word before them


@dataclass(frozen=True)
class AlignedWords:
    """A text, and where its words stand in it."""

    text: str
    spans: list[Span]

    @classmethod
    def of(cls, text: str) -> AlignedWords:
        """Words stand between spaces."""
        return cls(text, [found.span() for found in re.finditer(r"\S+", text)])

    @classmethod
    def joined(cls, words: Iterable[str]) -> AlignedWords:
        """A text made of words that a tokenizer of old has cut off: `mat .` becomes `mat.`"""
        text, spans = "", []
        for word in words:
            text += " " if text and word not in CLOSE else ""
            spans.append((len(text), len(text) + len(word)))
            text += word
        return cls(text, spans)

    @property
    def words(self) -> list[str]:
        return [self.text[start:end] for start, end in self.spans]


@torch.no_grad()
def align(
    task: Task,
    tokenizer: Tokenizer,
    source: AlignedWords | str,
    target: AlignedWords | str,
    *,
    layers: Sequence[int] | None = None,
    reading: bool = False,
    edit: Edit | None = None,
) -> Alignment:
    """How the model relates a text to a translation of it, its own or somebody else's.

    The weights are the mean over the heads of `layers`, blocks of the decoder (if not given: the
    upper half). `reading` takes the look after a word was read, not the one before it is written.
    Words that the decoder has no place for look at nothing. `edit` changes what is inside, as in
    `record`.
    """
    config = task.backbone.config
    if config.family != "seq2seq":
        raise InputError(
            f"align: this model is of the family {config.family}: only translation models align"
        )
    depth = config.decoder_depth or config.depth
    layers = usual_layers(depth) if layers is None else layers
    if not layers or not all(0 <= layer < depth for layer in layers):
        raise InputError(f"layers = {list(layers)}: the decoder has blocks 0 to {depth - 1}")
    source, target = (
        AlignedWords.of(each) if isinstance(each, str) else each for each in (source, target)
    )
    read, written = tokenizer.encode_all([source.text, target.text])
    inside = [i for i, special in enumerate(written.special) if not special]
    inside = inside[: config.max_length - 1]
    if not source.spans or not target.spans or not inside:
        empty = torch.zeros(len(target.spans), len(source.spans))
        return Alignment(source.words, target.words, empty)
    ids = [config.ids.start or 0, *(written.ids[i] for i in inside)]
    wanted = [f"decoder.blocks.{layer}.cross.weights" for layer in layers]
    recorder = Recorder(task, wanted, edit)
    task(next(task.batches([read.ids], targets=[ids])), visitor=recorder)
    cross = torch.stack(list(recorder.tensors.values()))
    seen = source_weights(cross, reading=reading)  # (T - 1, S)
    rows, columns = membership(written, target.spans)[inside], membership(read, source.spans)
    weights = (rows / rows.sum(0).clamp(min=1)).T @ seen @ columns
    return Alignment(source.words, target.words, weights)


def chain(parts: Sequence[Alignment]) -> Alignment:
    """Of texts that stand one after the other: no word looks out of its own."""
    return Alignment(
        [word for part in parts for word in part.source],
        [word for part in parts for word in part.target],
        torch.block_diag(*(part.weights for part in parts)),
    )


def membership(read: Encoding, spans: Sequence[Span]) -> Tensor:
    """(pieces, words): 1 where a piece is a part of a word."""
    found = torch.zeros(len(read.ids), len(spans))
    for i, (start, end) in enumerate(read.spans):
        if not read.special[i]:
            for j, (begin, stop) in enumerate(spans):
                found[i, j] = float(start < stop and end > begin)
    return found


def error_rate(found: Iterable[Iterable[Link]], gold: Iterable[Gold]) -> float:
    """Alignment error rate: 0 if all sure links and only possible ones were found, else up to 1.

    1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), over all sentences together (Och and Ney 2003).
    """
    right = all_of_them = 0
    for links, each in zip(found, gold, strict=True):
        chosen = set(links)
        right += len(chosen & each.sure) + len(chosen & each.possible)
        all_of_them += len(chosen) + len(each.sure)
    return 1 - right / max(1, all_of_them)
