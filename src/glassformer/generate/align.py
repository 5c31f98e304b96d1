"""Which word came from which: cross attention, read as a word alignment.

A decoder attends to the source twice because of a word: when it is about to write it, and one step
later, when it has just read it. In small models the first is more reliable, in the upper half of
the blocks; in deep models the second can be clearer, in a middle block (Chen et al. 2020, "Accurate
word alignment induction from neural machine translation"). benchmarks/align.py measures both.

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
CLOSE = frozenset(".,")  # punctuation without a space before it


@dataclass(frozen=True)
class AlignedWords:
    """A text, and the spans of its words."""

    text: str
    spans: list[Span]

    @classmethod
    def of(cls, text: str) -> AlignedWords:
        """Words are separated by spaces."""
        return cls(text, [match.span() for match in re.finditer(r"\S+", text)])

    @classmethod
    def joined(cls, words: Iterable[str]) -> AlignedWords:
        """A text from words that were tokenized before: `mat .` becomes `mat.`"""
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
    start: Sequence[int] | None = None,
) -> Alignment:
    """Align a text with a translation of it, the model's own or another.

    Args:
        layers: blocks of the decoder whose heads are averaged; the upper half, if not given
        reading: take the attention of the step that read a word, not of the step that wrote it
        edit: changes to the model's tensors, as in `record`
        start: the tokens before the target's first word; the model's start token, if not given

    Target words beyond the decoder's maximum length have no weights.
    """
    config = task.backbone.config
    if config.family != "seq2seq":
        raise InputError(
            f"align: this model is of the family {config.family}: load a translation model"
        )
    depth = config.output_stack.depth
    layers = usual_layers(depth) if layers is None else layers
    if not layers or not all(0 <= layer < depth for layer in layers):
        raise InputError(f"layers = {list(layers)}: the decoder has blocks 0 to {depth - 1}")
    source, target = (
        AlignedWords.of(text) if isinstance(text, str) else text for text in (source, target)
    )
    encoded_source = tokenizer.encode(source.text)
    encoded_target = tokenizer.target.encode(target.text)
    inside = [i for i, special in enumerate(encoded_target.special) if not special]
    inside = inside[: config.max_length - (1 if start is None else len(start))]
    if not source.spans or not target.spans or not inside:
        empty = torch.zeros(len(target.spans), len(source.spans))
        return Alignment(source.words, target.words, empty)
    start = [config.ids.start or 0] if start is None else start
    ids = [*start, *(encoded_target.ids[i] for i in inside)]
    names = [f"decoder.blocks.{layer}.cross.weights" for layer in layers]
    recorder = Recorder(task, names, edit)
    task(next(task.batches([encoded_source.ids], targets=[ids])), visitor=recorder)
    cross = torch.stack(list(recorder.tensors.values()))
    seen = source_weights(cross, reading=reading)[len(start) - 1 :]  # (T, S) of the words
    rows = membership(encoded_target, target.spans)[inside]
    columns = membership(encoded_source, source.spans)
    weights = (rows / rows.sum(0).clamp(min=1)).T @ seen @ columns
    return Alignment(source.words, target.words, weights)


def chain(parts: Sequence[Alignment]) -> Alignment:
    """Join the alignments of texts that follow each other: no links between the texts."""
    return Alignment(
        [word for part in parts for word in part.source],
        [word for part in parts for word in part.target],
        torch.block_diag(*(part.weights for part in parts)),
    )


def membership(encoding: Encoding, spans: Sequence[Span]) -> Tensor:
    """(tokens, words): 1 where a token is a part of a word."""
    matrix = torch.zeros(len(encoding.ids), len(spans))
    for i, (start, end) in enumerate(encoding.spans):
        if not encoding.special[i]:
            for j, (begin, stop) in enumerate(spans):
                matrix[i, j] = float(start < stop and end > begin)
    return matrix


def error_rate(predicted: Iterable[Iterable[Link]], gold: Iterable[Gold]) -> float:
    """Alignment error rate: 0 if all sure links and only possible ones are predicted, else up to 1.

    1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), over all sentences together (Och and Ney 2003).
    """
    right = total = 0
    for links, reference in zip(predicted, gold, strict=True):
        chosen = set(links)
        right += len(chosen & reference.sure) + len(chosen & reference.possible)
        total += len(chosen) + len(reference.sure)
    return 1 - right / max(1, total)
