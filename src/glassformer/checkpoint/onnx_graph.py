"""A task as a function of padded texts, as the ONNX files of the field are.

The inputs are `input_ids` and `attention_mask`, and `token_type_ids` of models with more than one
segment, each (B, T). Padding may stand on either side: each row is first moved to the left, so that
a token's position is the number of tokens before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.export import Dim

from glassformer.model import Batch, Look, Seq2Seq, Sequences
from glassformer.tasks import Output, Task
from glassformer.tasks.language import CausalLM

TEXTS, TOKENS, SOURCE = Dim("batch"), Dim("sequence"), Dim("source")


@dataclass(frozen=True, eq=False)
class Rectangle(Sequences):
    """Texts that are padded on the right to one length: attention masks what is not `filled`.

    the cat sat        longest = 3, filled = 3 1 2
    hello   ·   ·
    it      was ·
    """

    filled: Tensor  # (B,) the tokens of each text

    @classmethod
    def masked(cls, mask: Tensor) -> Rectangle:  # (B, T) of 0 and 1
        B, T = mask.shape
        return cls(torch.arange(B + 1) * T, (), T, mask.sum(1))

    @property
    def sizes(self) -> Tensor:
        return self.filled

    def even(self, x: Tensor) -> bool:
        return False

    def texts(self, x: Tensor) -> Tensor:
        return torch.arange(self.count)[:, None].expand(self.count, self.longest).flatten()

    def positions(self, x: Tensor, texts: Tensor | None = None) -> Tensor:
        return torch.arange(self.longest).expand(self.count, self.longest).flatten()

    def pad(self, x: Tensor, fill: float = 0.0) -> Tensor:
        return x.reshape(self.count, self.longest, *x.shape[1:])

    def unpad(self, rectangle: Tensor, like: Tensor) -> Tensor:
        return rectangle.flatten(0, 1)

    def sums(self, x: Tensor) -> Tensor:
        real = torch.arange(self.longest) < self.filled[:, None]  # (B, T)
        return (self.pad(x) * real[..., None]).sum(1)


class LeftAligned:
    """Moves the tokens of each row to the left, and their outputs back."""

    def __init__(self, mask: Tensor) -> None:  # (B, T)
        count = mask.sum(1, keepdim=True)
        padding = count + (1 - mask).cumsum(1)
        self.places = torch.where(mask > 0, mask.cumsum(1), padding) - 1  # of each column
        self.rows = torch.arange(mask.shape[0])[:, None]
        columns = torch.arange(mask.shape[1]).expand_as(mask)
        self.columns = torch.zeros_like(mask).scatter(1, self.places, columns)  # of each place

    def left(self, x: Tensor) -> Tensor:
        return x[self.rows, self.columns]

    def back(self, x: Tensor) -> Tensor:
        return x[self.rows, self.places]


class PaddedGraph(nn.Module, ABC):
    """Abstract; every subclass is one .onnx file."""

    file: ClassVar[str]
    inputs: tuple[str, ...]
    shapes: tuple[dict[int, Any], ...]  # the dynamic axes of each input

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]: ...

    @abstractmethod
    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]: ...


class PaddedTask(PaddedGraph):
    """A whole model that reads each text once."""

    file = "model.onnx"

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        kinds = ("token_type_ids",) if task.backbone.config.segments > 1 else ()
        self.inputs = ("input_ids", "attention_mask", *kinds)
        self.shapes = ({0: TEXTS, 1: TOKENS},) * len(self.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        return output_names(self.task)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        ids, mask, *kinds = inputs
        where, rectangle = LeftAligned(mask), Rectangle.masked(mask)
        ids = where.left(ids)
        batch = Batch(ids.flatten(), rectangle)
        if kinds:
            batch = Batch(ids.flatten(), rectangle, segments=where.left(kinds[0]).flatten())
        elif isinstance(self.task.backbone, Seq2Seq):  # its decoder reads the source once more
            start = torch.full_like(ids[:, :1], self.task.backbone.config.ids.start or 0)
            batch = Batch(torch.cat([start, ids[:, :-1]], 1).flatten(), rectangle, source=batch)
        values = named_outputs(self.task, self.task(batch))
        return tuple(
            where.back(rectangle.pad(value)) if by_token(self.task, name) else value
            for name, value in values.items()
        )


class PaddedEncoder(PaddedGraph):
    """The encoder of a translation model."""

    file = "encoder_model.onnx"
    inputs = ("input_ids", "attention_mask")
    shapes = ({0: TEXTS, 1: SOURCE}, {0: TEXTS, 1: SOURCE})

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("last_hidden_state",)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        assert isinstance(self.task.backbone, Seq2Seq)  # noqa: S101 - see graphs_of
        ids, mask = inputs
        where, rectangle = LeftAligned(mask), Rectangle.masked(mask)
        states = self.task.backbone.encoder(Batch(where.left(ids).flatten(), rectangle))
        return (where.back(rectangle.pad(states)),)


class PaddedDecoder(PaddedGraph):
    """The decoder of a translation model, for the target tokens so far; it has no cache."""

    file = "decoder_model.onnx"
    inputs = ("input_ids", "encoder_hidden_states", "encoder_attention_mask")
    shapes = ({0: TEXTS, 1: TOKENS}, {0: TEXTS, 1: SOURCE}, {0: TEXTS, 1: SOURCE})

    @property
    def outputs(self) -> tuple[str, ...]:
        return output_names(self.task)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        assert isinstance(self.task.backbone, Seq2Seq)  # noqa: S101 - see graphs_of
        ids, states, mask = inputs
        targets = Rectangle.masked(torch.ones_like(ids))
        hidden = self.task.backbone.decoder(
            Batch(ids.flatten(), targets),
            memory=LeftAligned(mask).left(states).flatten(0, 1),
            memory_keys=Rectangle.masked(mask),
        )
        if isinstance(self.task, CausalLM):
            hidden = self.task.lm_logits(hidden, Look())
        return (targets.pad(hidden),)


def graphs_of(task: Task) -> list[PaddedGraph]:
    """The files that a task becomes."""
    if isinstance(task.backbone, Seq2Seq) and not task.spec.traits.repeats_source:
        return [PaddedEncoder(task), PaddedDecoder(task)]
    return [PaddedTask(task)]


def output_names(task: Task) -> tuple[str, ...]:
    """The names of the outputs, as transformers calls them."""
    predicts = task.spec.traits.predicts
    if predicts == "span":
        return ("start_logits", "end_logits")
    if predicts == "vectors":
        return ("last_hidden_state",) + (("pooler_output",) if task.spec.pooler else ())
    return ("logits",) + (("seq_relationship_logits",) if task.spec.kind == "masked_lm_nsp" else ())


def named_outputs(task: Task, output: Output) -> dict[str, Tensor]:
    """The outputs of a task by name: one row per token, or one row per text."""
    values = [output.logits]
    if task.spec.traits.predicts == "span":
        values = list(output.logits.unbind(-1))
    others = (output.pooled, output.next_sentence_logits)
    values += [value for value in others if value is not None]
    return dict(zip(output_names(task), values, strict=True))


def by_token(task: Task, name: str) -> bool:
    """Whether an output has one row per token."""
    return task.per == "token" and name not in ("pooler_output", "seq_relationship_logits")
