"""The tuned lens: the logit lens with one learned map for each layer.

h ↦ h + W h + b, then the final norm and the head. W and b start at zero, where it is the logit
lens, and are trained so that KL(model ‖ lens) is small. Belrose et al. 2023, "Eliciting latent
predictions from transformers with the tuned lens".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError, InputError
from glassformer.glass.lens import language_model, output_side, stream_logits
from glassformer.interpret.files import load_tensors, save_tensors
from glassformer.loaded import Model, record

FORMAT = "glassformer-tuned-lens-1"


@dataclass(frozen=True, eq=False)
class TunedLens:
    """A map from the output of each block to what the last block would write."""

    weight: Tensor  # (L, C, C)
    bias: Tensor  # (L, C)

    def logits(self, model: Model, layer: int, vectors: Tensor) -> Tensor:  # (n, C) → (n, V)
        """What the head would predict from the output of block `layer`."""
        x = vectors + vectors @ self.weight[layer].to(vectors).T + self.bias[layer].to(vectors)
        return stream_logits(language_model(model), model, x)

    @torch.no_grad()
    def distances(self, model: Model, texts: Sequence[Any]) -> Tensor:  # (L,)
        """KL(model ‖ lens) of each layer in nats, the mean over the tokens of these texts."""
        streams, final = _streams(model, texts)
        if self.weight.shape != (len(streams), streams[0].shape[1], streams[0].shape[1]):
            raise InputError(
                f"this lens has {len(self.weight)} layers of width {self.weight.shape[1]}, and the "
                f"model {len(streams)} of width {streams[0].shape[1]}: fit one for this model"
            )
        rows = [_kl(final, self.logits(model, i, x)) for i, x in enumerate(streams)]
        return torch.stack(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file."""
        save_tensors(path, FORMAT, {"weight": self.weight, "bias": self.bias}, {})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TunedLens:
        """Read a file that `save` wrote."""
        tensors, _ = load_tensors(path, FORMAT, {"weight": 3, "bias": 2})
        return cls(tensors["weight"], tensors["bias"])


def logit_lens(model: Model) -> TunedLens:
    """The lens whose maps are the identity."""
    task = language_model(model)
    depth = len(getattr(task.backbone, output_side(task)).blocks)
    return TunedLens(torch.zeros(depth, task.width, task.width), torch.zeros(depth, task.width))


@torch.enable_grad()
def fit_tuned_lens(
    model: Model, texts: Sequence[Any], *, steps: int = 200, lr: float = 1e-3, batch: int = 256,
    seed: int = 0, on_step: Callable[[int, float], None] | None = None,
) -> TunedLens:  # fmt: skip
    """Train a lens for a model.

    Args:
        texts: as `record` takes them; hundreds, of the kind the lens is for
        steps: of Adam, each with a random sample of tokens for every layer
        lr: the step size
        batch: tokens of a step
        on_step: called after each step with its number and the mean loss
    """
    if steps < 1:
        raise ConfigError(f"steps = {steps}: write a whole number from 1 on")
    with torch.no_grad():
        streams, final = _streams(model, texts)
    start = logit_lens(model)
    lens = TunedLens(*(t.to(final.device).requires_grad_() for t in (start.weight, start.bias)))
    optimizer = torch.optim.Adam([lens.weight, lens.bias], lr=lr)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randint(len(final), (min(batch, len(final)),), generator=draw)
        losses = [_kl(final[rows], lens.logits(model, i, x[rows])) for i, x in enumerate(streams)]
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        gradients = torch.autograd.grad(loss, [lens.weight, lens.bias])
        lens.weight.grad, lens.bias.grad = gradients
        optimizer.step()
        if on_step is not None:
            on_step(step, loss.item())
    return TunedLens(lens.weight.detach().cpu(), lens.bias.detach().cpu())


def _streams(model: Model, texts: Sequence[Any]) -> tuple[list[Tensor], Tensor]:
    """The output of each block, (N, C), and the logits, (N, V), at all tokens of the texts."""
    stack = output_side(language_model(model))
    if not len(texts):
        raise InputError("the tuned lens needs texts: give at least one")
    names = f"{stack}.blocks.*.out"
    traces = [record(model, text, keep=(names, "logits")) for text in texts]
    depth = len(getattr(model.task.backbone, stack).blocks)
    streams = [
        torch.cat([trace[f"{stack}.blocks.{layer}.out"] for trace in traces])
        for layer in range(depth)
    ]
    return streams, torch.cat([trace["logits"] for trace in traces])


def _kl(final: Tensor, lens: Tensor) -> Tensor:
    """KL(model ‖ lens) in nats, the mean over rows."""
    p, q = final.log_softmax(-1), lens.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()
