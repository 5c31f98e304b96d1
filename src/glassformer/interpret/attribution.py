"""Direct logit attribution: what each head, MLP and embedding adds to logit(answer) − logit(other).

The stream is a sum, and with the scales of the norms held at their values in this run, the way
from each summand to the logits is linear. So the difference is a sum, too: d · h of each summand h,
where the direction d is E_answer − E_other carried back through the head and the norms.
Elhage et al. 2021, "A mathematical framework for transformer circuits".

What a component changes through later components is not in its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

import torch
from torch import Tensor, nn

from glassformer.glass.lens import output_side
from glassformer.glass.recorder import Edit, Recorder
from glassformer.interpret.contrast import Contrast, ask
from glassformer.loaded import Model
from glassformer.model import Attention, Block, Norm
from glassformer.model.stack import Stack
from glassformer.tasks import CausalLM, MaskedLM

Kind = Literal["embedding", "head", "cross_head", "mlp", "patch", "biases", "rounding"]
# Tensors of a block that are sums of its parts, or of a part's heads; an edit may break the sum.
SUMS = ("out", "attention_sum", "cross_sum", "mlp_sum", "attention.out", "cross.out")


@dataclass(frozen=True)
class Contribution:
    """A summand of the difference of two logits."""

    kind: Kind
    value: float
    layer: int | None = None  # none for the embedding and the biases
    head: int | None = None

    @property
    def name(self) -> str:
        places = [f"{self.layer}"] if self.layer is not None else []
        places += [f"{self.head}"] if self.head is not None else []
        return " ".join([self.kind.replace("_", " "), ".".join(places)]).strip()


@dataclass(frozen=True, eq=False)
class LogitAttribution:
    """The difference of two logits as a sum, in the order in which the model adds."""

    contrast: Contrast
    difference: float
    contributions: list[Contribution]

    @property
    def total(self) -> float:
        return sum(each.value for each in self.contributions)

    @property
    def rounding(self) -> float:
        """What the summands lack: the error of the model's own arithmetic, in half precision."""
        return self.difference - self.total

    @property
    def strongest(self) -> list[Contribution]:
        """The summands, the largest first, with the rounding if it shows in four digits."""
        rest = Contribution("rounding", self.rounding)
        rows = self.contributions + [rest] * (abs(rest.value) >= 5e-5)
        return sorted(rows, key=lambda each: -abs(each.value))


@torch.no_grad()
def direct_logit_attribution(
    model: Model, what: Any, answer: str | int | None = None, other: str | int | None = None, *,
    position: int | None = None,
) -> LogitAttribution:  # fmt: skip
    """Split logit(answer) − logit(other) into what each part of the output stack adds to it.

    Args:
        what: the input of `record`; for a translation model (source, target)
        answer: a word or its token id; the model's best one, if not given
        other: the word to compare with; the second best, if not given
        position: the token that predicts; the mask of an encoder, the last one of a decoder
    """
    return attribute(ask(model, what, answer, other, position=position))


@torch.no_grad()
def attribute(contrast: Contrast, *, edit: Edit | None = None) -> LogitAttribution:
    """The same for a contrast.

    Args:
        edit: that of `record`; what it adds to the output of a block is a summand of its own, patch
    """
    task, stack = contrast.task, output_side(contrast.task)
    body = getattr(task.backbone, stack)
    kept = [
        f"{stack}.embedding.out",
        *(f"{stack}.blocks.*{end}" for end in ("out", "mixed", "_sum")),
    ]
    recorder = Recorder(contrast.model, keep=kept, edit=edit)
    logits = contrast.model(contrast.batch, visitor=recorder).logits[contrast.position]
    walk = _Walk(body, recorder, contrast.position, stack)
    last = walk.row(f"blocks.{len(body.blocks) - 1}.out")
    hidden = last if body.norm is None else _normed(body.norm, last)
    direction = walk.through_head(task, hidden, contrast)
    return LogitAttribution(
        contrast, float(contrast.difference(logits)), walk.through_stack(direction)
    )


class _Walk:
    """From the logits back to the embedding, with the direction that each summand is read along."""

    def __init__(self, body: Stack, recorder: Recorder, position: int, stack: str) -> None:
        self.body, self.recorder, self.position, self.stack = body, recorder, position, stack
        self.biases = 0.0  # Σ d · b of the norms and output layers on the way

    def row(self, name: str) -> Tensor:  # (C,) or (H, D)
        """A tensor of this stack at the token that predicts."""
        return self.recorder.tensors[f"{self.stack}.{name}"][self.position].double()

    def edited(self, layer: int) -> bool:
        """Whether an edit changes what the parts of a block add up to."""
        names = [f"{self.stack}.blocks.{layer}.{end}" for end in SUMS]
        return any(fnmatchcase(name, each) for name in names for each in self.recorder.edit)

    def through_head(
        self, task: MaskedLM | CausalLM, hidden: Tensor, contrast: Contrast
    ) -> Tensor:  # (C,)
        """The direction at the stack's output. The activation of BERT's head counts as a factor."""
        x, head = hidden, task.lm_head
        if isinstance(task, MaskedLM):
            dense, norm = task.transform.dense, task.transform.norm
            z = dense.weight.double() @ x + (0 if dense.bias is None else dense.bias.double())
            active = task.transform.activation(z)
            factor = torch.where(z == 0, 0, active / z)
            x = _normed(norm, active)
        ids = [contrast.answer, contrast.other]
        table = task.backbone.token_embedding if head.weight is None else head.weight
        vectors = table[ids].double() * (1.0 if head.scale is None else head.scale)
        bias = torch.zeros(2).to(x) if head.bias is None else head.bias[ids].double()
        signs = torch.tensor([1.0, -1.0]).to(x)
        if head.cap is not None:
            raw = vectors @ x + bias
            factor = head.cap * torch.tanh(raw / head.cap) / raw
            signs = signs * torch.where(raw == 0, 1, factor)
        direction = signs @ vectors
        self.biases += float(signs @ bias)
        if isinstance(task, MaskedLM):
            direction = self.through_norm(norm, active, direction) * factor
            self.biases += 0.0 if dense.bias is None else float(dense.bias.double() @ direction)
            direction = direction @ dense.weight.double()
        return direction

    def through_norm(self, norm: nn.Module, x: Tensor, direction: Tensor) -> Tensor:
        """The direction before a norm whose scale is held at its value for `x`."""
        if not isinstance(norm, Norm):
            return direction
        if norm.bias is not None:
            self.biases += float(norm.bias.double() @ direction)
        weight, scale = _scaling(norm, x)
        before = direction * weight / scale
        return before - before.mean() if norm.centred else before

    def through_stack(self, direction: Tensor) -> list[Contribution]:
        parts: list[Contribution] = []
        depth = len(self.body.blocks)
        if self.body.norm is not None:
            last = self.row(f"blocks.{depth - 1}.out")
            direction = self.through_norm(self.body.norm, last, direction)
        for layer in reversed(range(depth)):
            whole, biases = self.row(f"blocks.{layer}.out") @ direction, self.biases
            direction, added = self.through_block(layer, direction)
            if self.edited(layer):
                before = f"blocks.{layer - 1}.out" if layer else "embedding.out"
                rest = self.row(before) @ direction + self.biases - biases
                patch = float(whole - rest) - sum(each.value for each in added)
                added.append(Contribution("patch", patch, layer))
            parts = added + parts
        start = float(self.row("embedding.out") @ direction)
        return [Contribution("embedding", start), *parts, Contribution("biases", self.biases)]

    def through_block(self, layer: int, direction: Tensor) -> tuple[Tensor, list[Contribution]]:
        block, name = self.body.blocks[layer], f"blocks.{layer}"
        assert isinstance(block, Block)  # noqa: S101
        added: list[Contribution] = []
        for part, module, norm, out_norm in (
            ("mlp", block.mlp, block.mlp_norm, block.mlp_out_norm),
            ("cross", block.cross, block.cross_norm, block.cross_out_norm),
            ("attention", block.attention, block.attention_norm, block.attention_out_norm),
        ):
            if module is None or norm is None:
                continue
            if block.post:
                direction = self.through_norm(norm, self.row(f"{name}.{part}_sum"), direction)
            out = self.row(f"{name}.{part}.out")
            inner = self.through_norm(out_norm, out, direction)
            if isinstance(module, Attention):
                values = self.heads(module, self.row(f"{name}.{part}.mixed"), inner)
                kind: Kind = "head" if part == "attention" else "cross_head"
                numbered = enumerate(values.tolist())
                here = [Contribution(kind, value, layer, head) for head, value in numbered]
            else:
                here = [Contribution("mlp", float(out @ inner), layer)]
            added = here + added
        return direction, added

    def heads(self, attention: Attention, mixed: Tensor, direction: Tensor) -> Tensor:  # (H,)
        """d · W_O mixed of each head; the bias of W_O belongs to none."""
        output = attention.output
        if output.bias is not None:
            self.biases += float(output.bias.double() @ direction)
        weight = output.weight.double().unflatten(1, mixed.shape)  # (C, H, D)
        return torch.einsum("c,chd,hd->h", direction, weight, mixed)


def _scaling(norm: Norm, x: Tensor) -> tuple[Tensor, Tensor]:
    """γ, and the scale that the norm divides `x` by."""
    weight = norm.weight.double() + (1 if norm.plus_one else 0)
    spread = x.var(unbiased=False) if norm.centred else x.square().mean()
    return weight, (spread + norm.eps).sqrt()


def _normed(norm: Norm, x: Tensor) -> Tensor:
    weight, scale = _scaling(norm, x)
    y = (x - x.mean() if norm.centred else x) / scale * weight
    return y if norm.bias is None else y + norm.bias.double()
