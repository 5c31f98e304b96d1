"""The tuned lens: the logit lens with one learned map for each layer.

h ↦ h + W h + b, then the final norm and the head. W and b start at zero, where it is the logit
lens, and are trained so that KL(model ‖ lens) is small. Belrose et al. 2023, "Eliciting latent
predictions from transformers with the tuned lens".
"""

from __future__ import annotations

import hashlib
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
BATCH = 256  # tokens whose logits are computed at once


@dataclass(frozen=True, eq=False)
class TunedLens:
    """A map from the output of each block to what the last block would write."""

    weight: Tensor  # (L, C, C)
    bias: Tensor  # (L, C)
    model: str | None = None  # the fingerprint of the model that it was fitted to; None for any

    def logits(self, model: Model, layer: int, vectors: Tensor) -> Tensor:  # (n, C) → (n, V)
        """What the head would predict from the output of block `layer`."""
        x = vectors + vectors @ self.weight[layer].to(vectors).T + self.bias[layer].to(vectors)
        return stream_logits(language_model(model), model, x)

    def check(self, model: Model) -> None:
        """InputError if the lens was fitted to another model."""
        depth, width = logit_lens(model).bias.shape
        if self.bias.shape != (depth, width):
            raise InputError(
                f"this lens has {len(self.weight)} layers of width {self.weight.shape[1]}, and the "
                f"model {depth} of width {width}: fit one for this model"
            )
        if self.model is not None and self.model != fingerprint(model):
            raise InputError(
                "this lens was fitted to a model with other weights: fit one for this model"
            )

    @torch.no_grad()
    def distances(self, model: Model, texts: Sequence[Any]) -> Tensor:  # (L,)
        """KL(model ‖ lens) of each layer in nats, the mean over the tokens of these texts."""
        self.check(model)
        streams = _streams(model, texts)
        totals = torch.zeros(len(streams), dtype=torch.float64)
        for rows in torch.arange(len(streams[0])).split(BATCH):
            totals += len(rows) * _distances(self, model, streams, rows).double().cpu()
        return totals / len(streams[0])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a safetensors file."""
        tensors = {"weight": self.weight, "bias": self.bias}
        save_tensors(path, FORMAT, tensors, {"model": self.model})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TunedLens:
        """Read a file that `save` wrote."""
        tensors, about = load_tensors(path, FORMAT, {"weight": 3, "bias": 2})
        model: Any = about.get("model")
        if not isinstance(model, str | None):
            raise InputError(f"{path}: model = {model!r}: not a fingerprint: save the lens again")
        return cls(tensors["weight"], tensors["bias"], model)


def fingerprint(model: Model) -> str:
    """A hash of the first weights of each tensor in bfloat16; of a copy in bfloat16, the same."""
    digest = hashlib.sha256()
    for name, weight in model.task.state_dict().items():
        first = weight.flatten()[:64].to("cpu", torch.bfloat16).view(torch.int16)
        digest.update(name.encode() + first.numpy().tobytes())
    return digest.hexdigest()[:16]


def logit_lens(model: Model) -> TunedLens:
    """The lens whose maps are the identity."""
    task = language_model(model)
    depth = len(getattr(task.backbone, output_side(task)).blocks)
    return TunedLens(torch.zeros(depth, task.width, task.width), torch.zeros(depth, task.width))


@torch.enable_grad()
def fit_tuned_lens(
    model: Model, texts: Sequence[Any], *, steps: int = 200, lr: float = 1e-3, batch: int = BATCH,
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
        streams = _streams(model, texts)
    start, count = logit_lens(model), len(streams[0])
    weight, bias = (t.to(model.device).requires_grad_() for t in (start.weight, start.bias))
    lens = TunedLens(weight, bias)
    optimizer = torch.optim.Adam([lens.weight, lens.bias], lr=lr)
    draw = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randint(count, (min(batch, count),), generator=draw)
        loss = _distances(lens, model, streams, rows).mean()
        optimizer.zero_grad()
        gradients = torch.autograd.grad(loss, [lens.weight, lens.bias])
        lens.weight.grad, lens.bias.grad = gradients
        optimizer.step()
        if on_step is not None:
            on_step(step, loss.item())
    return TunedLens(lens.weight.detach().cpu(), lens.bias.detach().cpu(), fingerprint(model))


def _streams(model: Model, texts: Sequence[Any]) -> list[Tensor]:
    """The output of each block at all tokens of the texts, (N, C)."""
    stack = output_side(language_model(model))
    if not len(texts):
        raise InputError("the tuned lens needs texts: give at least one")
    depth = len(getattr(model.task.backbone, stack).blocks)
    names = [f"{stack}.blocks.{layer}.out" for layer in range(depth)]
    traces = [record(model, text, keep=names) for text in texts]
    return [torch.cat([trace[name] for trace in traces]) for name in names]


def _distances(lens: TunedLens, model: Model, streams: list[Tensor], rows: Tensor) -> Tensor:
    """KL(model ‖ lens) of each layer, the mean over these tokens. (L,)"""
    with torch.no_grad():
        final = stream_logits(language_model(model), model, streams[-1][rows])
    layers = [_kl(final, lens.logits(model, i, x[rows])) for i, x in enumerate(streams)]
    return torch.stack(layers)


def _kl(final: Tensor, lens: Tensor) -> Tensor:
    """KL(model ‖ lens) in nats, the mean over rows."""
    p, q = final.log_softmax(-1), lens.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1).mean()
